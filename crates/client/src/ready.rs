//! A client that prepares while nobody asks, so that an image finds its offline work done.
//!
//! One thread owns the connection and keeps it: every image and every preparation goes over it. It answers images first;
//! when none waits and fewer inferences are ready than wished for, it prepares another one. What is ready lives in memory
//! on both sides and ends with the connection.
//!
//! A connection that breaks is replaced, by whatever way the owner gave for that. An image that was under way is lost with
//! it, and its error is the answer: half of it may have been sent, and nobody but the caller can say whether it should be
//! asked again. Images that come later find the new connection. While none comes about, the thread waits longer and longer
//! between attempts, unless somebody asks.
//!
//! A server that lets a client have fewer than wished for says so by ending the session, and what was ready is lost. It is asked for
//! no more than that from then on, until all of it was used and a minute has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inference::InferenceError;
use inference::client::Answer;
use inference::connection::refusal::RefusalCode;
use network::image::Image;

use super::{ClientError, PrivateClient};

/// How long nobody tries again after a first failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A connected client that keeps some inferences ready.
pub struct ReadyClient {
    jobs: Option<Sender<Job>>,
    ready: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Result<(), ClientError>>>,
}

struct Job {
    images: Vec<Image>,
    done: Sender<Result<Vec<Answer>, ClientError>>,
}

/// A way to the server.
type Connect = Box<dyn FnMut() -> Result<PrivateClient, ClientError> + Send>;

impl ReadyClient {
    /// Keeps so many inferences ready over this connection. When it breaks, that is the end.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(client: PrivateClient, wished: usize) -> std::io::Result<Self> {
        Self::spawn(Keeper::new(client, None, wished))
    }

    /// Connects, and keeps so many inferences ready over this connection, or over the next one when it breaks.
    ///
    /// # Errors
    /// When the first connection does not come about, or the system gives no thread.
    pub fn reconnecting(
        mut connect: impl FnMut() -> Result<PrivateClient, ClientError> + Send + 'static,
        wished: usize,
    ) -> Result<Self, ClientError> {
        let client = connect()?;
        let keeper = Keeper::new(client, Some(Box::new(connect)), wished);
        Self::spawn(keeper).map_err(|error| ClientError::Inference(error.into()))
    }

    fn spawn(keeper: Keeper) -> std::io::Result<Self> {
        let (jobs, waiting) = channel();
        let ready = Arc::new(AtomicUsize::new(keeper.prepared()));
        let shown = Arc::clone(&ready);
        let builder = std::thread::Builder::new().name("sordino-ready".to_owned());
        let thread = builder.spawn(move || keeper.work(&waiting, &shown))?;
        Ok(Self { jobs: Some(jobs), ready, thread: Some(thread) })
    }

    /// How many images would find their offline work done.
    pub fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    /// Classifies images that share every round trip. An inference that is being prepared is finished first.
    ///
    /// # Errors
    /// When the images have another size, the server refuses or the connection breaks. A client that does not reconnect is
    /// over then, and [`ReadyClient::finish`] says why if this does not.
    pub fn classify_batch(&self, images: Vec<Image>) -> Result<Vec<Answer>, ClientError> {
        let (done, answer) = channel();
        let jobs = self.jobs.as_ref().expect("they end with the client");
        jobs.send(Job { images, done }).map_err(|_| ClientError::Over)?;
        answer.recv().map_err(|_| ClientError::Over)?
    }

    /// Ends the session; what is ready is lost.
    ///
    /// # Errors
    /// When preparing or saying goodbye failed.
    pub fn finish(mut self) -> Result<(), ClientError> {
        self.jobs = None;
        let thread = self.thread.take().expect("it is taken here or on drop");
        thread.join().unwrap_or(Err(ClientError::Over))
    }
}

impl Drop for ReadyClient {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Who wants to know calls `finish`.
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Keeper {
    /// None after it broke.
    client: Option<PrivateClient>,
    connect: Option<Connect>,
    wished: usize,
    /// What the server lets us have, where it said that it is less, and when.
    allowed: Option<(usize, Instant)>,
    /// How long to wait after the next failure.
    pause: Duration,
}

impl Keeper {
    fn new(client: PrivateClient, connect: Option<Connect>, wished: usize) -> Self {
        Self { client: Some(client), connect, wished, allowed: None, pause: FIRST_PAUSE }
    }

    /// How many are to be ready.
    fn aim(&self) -> usize {
        self.allowed.map_or(self.wished, |(allowed, _)| allowed.min(self.wished))
    }

    fn prepared(&self) -> usize {
        self.client.as_ref().map_or(0, PrivateClient::prepared)
    }

    fn work(mut self, jobs: &Receiver<Job>, ready: &AtomicUsize) -> Result<(), ClientError> {
        let mut rest = Duration::ZERO;
        loop {
            ready.store(self.prepared(), Ordering::Relaxed);
            let is_full = self.client.is_some() && self.prepared() >= self.aim();
            let job = match is_full {
                true => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => jobs.recv_timeout(rest),
            };
            match job {
                Ok(job) => self.answer(job)?,
                Err(RecvTimeoutError::Timeout) => rest = self.prepare()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return self.client.map_or(Ok(()), PrivateClient::finish);
                }
            }
        }
    }

    /// Prepares one inference; how long to rest before the next attempt.
    fn prepare(&mut self) -> Result<Duration, ClientError> {
        let before = self.prepared();
        match self.with_client(|client| client.prepare(1)) {
            Ok(()) => Ok(Duration::ZERO),
            Err(error) if self.connect.is_none() => Err(error),
            Err(error) => {
                if is_limit(&error) {
                    self.allowed = Some((before.max(1), Instant::now()));
                }
                let pause = self.pause;
                self.pause = (2 * pause).min(LONGEST_PAUSE);
                Ok(pause)
            }
        }
    }

    fn answer(&mut self, job: Job) -> Result<(), ClientError> {
        let answers = self.with_client(|client| client.classify_batch(&job.images));
        // More than before may be allowed by now; nothing is lost by asking.
        let is_used = self.prepared() == 0;
        self.allowed = self.allowed.filter(|(_, since)| !is_used || since.elapsed() < LONGEST_PAUSE);
        // Who asked may have gone away; the answer is nobody else's.
        let _ = job.done.send(answers);
        match (&self.client, &self.connect) {
            (None, None) => Err(ClientError::Over),
            _ => Ok(()),
        }
    }

    /// Does something over the connection there is, or over a new one. A connection that something failed on is given up:
    /// nothing more can be said over it.
    fn with_client<R>(
        &mut self,
        ask: impl FnOnce(&mut PrivateClient) -> Result<R, ClientError>,
    ) -> Result<R, ClientError> {
        let mut client = match (self.client.take(), &mut self.connect) {
            (Some(client), _) => client,
            (None, Some(connect)) => connect()?,
            (None, None) => return Err(ClientError::Over),
        };
        let result = ask(&mut client);
        if !client.is_broken() {
            self.client = Some(client);
            self.pause = FIRST_PAUSE;
        }
        result
    }
}

/// Whether the server said that this client may not have so much.
fn is_limit(error: &ClientError) -> bool {
    let ClientError::Inference(InferenceError::Refused { refusal, .. }) = error else { return false };
    refusal.code == RefusalCode::Limit
}
