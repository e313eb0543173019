//! A client that prepares while nobody asks, so that an image finds its offline work done.
//!
//! One thread owns the connection. It answers images first; when none waits and fewer inferences are ready than wished
//! for, it prepares another one. What is ready lives in memory on both sides and ends with the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use inference::client::Answer;
use network::image::Image;

use super::{ClientError, PrivateClient};

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

impl ReadyClient {
    /// Keeps so many inferences ready over this connection.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(client: PrivateClient, wished: usize) -> std::io::Result<Self> {
        let (jobs, waiting) = channel();
        let ready = Arc::new(AtomicUsize::new(client.prepared()));
        let shown = Arc::clone(&ready);
        let builder = std::thread::Builder::new().name("sordino-ready".to_owned());
        let thread = builder.spawn(move || work(client, wished, &waiting, &shown))?;
        Ok(Self { jobs: Some(jobs), ready, thread: Some(thread) })
    }

    /// How many images would find their offline work done.
    pub fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    /// Classifies images that share every round trip. An inference that is being prepared is finished first.
    ///
    /// # Errors
    /// When the images have another size, the server refuses or the connection breaks; then it is over, and
    /// [`ReadyClient::finish`] says why if this does not.
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

fn work(
    mut client: PrivateClient,
    wished: usize,
    jobs: &Receiver<Job>,
    ready: &AtomicUsize,
) -> Result<(), ClientError> {
    loop {
        ready.store(client.prepared(), Ordering::Relaxed);
        let job = if client.prepared() < wished {
            match jobs.try_recv() {
                Err(TryRecvError::Empty) => {
                    client.prepare(1)?;
                    continue;
                }
                Err(TryRecvError::Disconnected) => return client.finish(),
                Ok(job) => job,
            }
        } else {
            match jobs.recv() {
                Err(_) => return client.finish(),
                Ok(job) => job,
            }
        };
        // Who asked may have gone away; the answer is nobody else's.
        let _ = job.done.send(client.classify_batch(&job.images));
    }
}
