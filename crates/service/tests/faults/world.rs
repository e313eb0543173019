//! A server, a client that something happens to, and everything that must hold afterwards.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use client::prepared_file::PreparedFile;
use client::{ClientError, Patience, PrivateClient};
use crypto::secret::Secret;
use inference::InferenceError;
use inference::client::{Answer, Wishes};
use inference::connection::DEFAULT_LEAST_RATE;
use inference::connection::refusal::RefusalCode;
use inference::connection::{TimeLimits, TlsConnector, TlsStream, Trust};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use network::reference::bound::{self, ReluRounding};
use network::text::with_causes;
use sordino_service::store::{PreparedStore, StoreOptions};
use sordino_service::{ClientLimits, Limits};

use super::fault::{Fault, Plan, Way};
use super::frames::FaultyStream;
use super::records::proxy;
use super::support::Running;
use super::watch;

/// Far more than any patience here: who takes longer hangs.
const HANGS: Duration = Duration::from_secs(90);

/// What the bytes are divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Level {
    /// TLS records, by a proxy without keys.
    Records,
    /// Messages, inside the channel.
    Messages,
}

/// Which connection something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Script {
    /// Prepares and classifies.
    Plain,
    /// Prepares into a file.
    Prepare,
    /// Classifies from the file.
    Stored,
}

/// One fault at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Case {
    pub(crate) level: Level,
    pub(crate) script: Script,
    pub(crate) way: Way,
    pub(crate) index: usize,
    pub(crate) fault: Fault,
}

/// What came of it at the client.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The place was not reached, or what happened there did no harm.
    Harmless,
    /// Inside the channel a changed body may go unnoticed: the client then has a wrong answer, and nobody else anything.
    Unnoticed,
    /// With the whole text of the error.
    Refused(String),
}

type Tested = PrivateClient<FaultyStream<TlsStream>>;

pub(crate) struct World {
    server: Running,
    image: Image,
    expected: Vec<i64>,
    /// How far logits may be from the reference's, for the coins of rounding and encryption; none where only the class
    /// counts.
    tolerance: Option<i64>,
    patience: Duration,
    folder: PathBuf,
    next_file: AtomicU64,
    /// Connections that clients made.
    connections: AtomicU64,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl World {
    pub(crate) fn new(model: InferenceModel, compares_logits: bool, patience: Duration) -> Arc<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("sordino-faults-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let image = Image::random(model.outline().input, 5);
        let plain = reference::trace(&model, &image, None).unwrap();
        let deviation = |logit| bound::logit_deviation(&model, &plain, logit, ReluRounding::Stochastic);
        let bound = |logit| bound::largest_difference(deviation(logit), 1_000_000);
        let widest = || (0..plain.logits.len()).map(bound).fold(0.0, f64::max) as i64;
        let tolerance = compares_logits.then(widest);
        let expected = plain.logits;
        let server = serve(&model, &folder, patience);
        let (next_file, connections) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { server, image, expected, tolerance, patience, folder, next_file, connections })
    }

    /// How many records or messages a connection has in each direction when nothing happens to it.
    pub(crate) fn measure(self: &Arc<Self>, level: Level, script: Script) -> [usize; 2] {
        let plan = Arc::new(Plan::default());
        self.act(level, script, &plan).0.unwrap();
        self.settle();
        plan.seen()
    }

    /// Lets it happen, and looks at everything that must hold.
    pub(crate) fn run(self: &Arc<Self>, case: Case) -> Outcome {
        let (done, result) = channel();
        let (world, number) = (Arc::clone(self), self.next_file.load(Ordering::SeqCst));
        thread::spawn(move || done.send(world.run_here(case)));
        result.recv_timeout(HANGS).unwrap_or_else(|error| panic!("{case:?}, file {number}: {error}"))
    }

    fn run_here(self: &Arc<Self>, case: Case) -> Outcome {
        let metrics = self.server.service.metrics();
        let complaints = || metrics.failures.get() + metrics.refusals.get();
        let before = complaints();
        let plan = Plan::new(case.way, case.index, case.fault, self.patience * 2);
        let (result, file) = self.act(case.level, case.script, &plan);
        self.settle();
        let outcome = match &result {
            Err(error) => {
                let text = with_causes(error);
                watch::expect_blame(&text);
                watch::expect_no_secret(&text.replace(&self.server.fingerprint.to_string(), ""));
                assert!(complaints() > before, "{case:?}: the server noticed nothing of {text}");
                Outcome::Refused(text)
            }
            Ok(answer) if answer.as_ref().is_none_or(|answer| self.is_right(answer)) => Outcome::Harmless,
            Ok(_) => {
                assert_eq!((case.level, case.fault), (Level::Messages, Fault::CorruptBody), "{case:?}");
                Outcome::Unnoticed
            }
        };
        if let Some(file) = file {
            self.expect_spent_once(case, &file);
        }
        // The next inference on the same server.
        let mut client = self.connect(Level::Messages, &Arc::default()).unwrap();
        assert!(self.is_right(&client.classify(&self.image).unwrap()), "{case:?}");
        client.finish().unwrap();
        outcome
    }

    /// Goes through a script over one connection that the plan is for. A file that was in use comes along.
    fn act(
        &self,
        level: Level,
        script: Script,
        plan: &Arc<Plan>,
    ) -> (Result<Option<Answer>, ClientError>, Option<UsedFile>) {
        match script {
            Script::Plain => (self.classify(level, plan).map(Some), None),
            Script::Prepare => {
                let file = UsedFile { path: self.fresh_path(), copy: None };
                (self.prepare(level, plan, &file.path).map(|()| None), Some(file))
            }
            Script::Stored => {
                let path = self.fresh_path();
                self.prepare(Level::Messages, &Arc::default(), &path).unwrap();
                let copy = Some(std::fs::read(&path).unwrap());
                let result = self.connect(level, plan).and_then(|client| self.classify_from(client, &path));
                (result.map(Some), Some(UsedFile { path, copy }))
            }
        }
    }

    fn classify(&self, level: Level, plan: &Arc<Plan>) -> Result<Answer, ClientError> {
        let mut client = self.connect(level, plan)?;
        let answer = client.prepare(1).and_then(|()| client.classify(&self.image));
        if answer.is_err() {
            let again = client.classify(&self.image);
            assert!(again.is_err(), "the material of a broken inference is used again");
            return answer;
        }
        client.finish().and(answer)
    }

    fn prepare(&self, level: Level, plan: &Arc<Plan>, path: &Path) -> Result<(), ClientError> {
        let mut client = self.connect(level, plan)?;
        let description = client.describe_file("here").unwrap();
        let shape = Arc::clone(client.session_mut().plan());
        let mut file = PreparedFile::create(path, key(), description, &shape, 1).unwrap();
        client.prepare_into(&mut file)?;
        client.finish()
    }

    fn classify_from(&self, mut client: Tested, path: &Path) -> Result<Answer, ClientError> {
        let mut file = PreparedFile::open(path, key()).unwrap();
        let mut answers = client.classify_from(&mut file, std::slice::from_ref(&self.image))?;
        client.finish()?;
        Ok(answers.pop().unwrap())
    }

    fn connect(&self, level: Level, plan: &Arc<Plan>) -> Result<Tested, ClientError> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let (address, inside) = match level {
            Level::Records => (proxy(self.server.address, plan), Arc::default()),
            Level::Messages => (self.server.address, Arc::clone(plan)),
        };
        let connector = TlsConnector::new(&Trust::Fingerprint(self.server.fingerprint), None).unwrap();
        let limits = TimeLimits::new(self.patience);
        let socket = TcpStream::connect(address).unwrap();
        let (stream, binding) = connector.connect(socket, "here", Arc::clone(&limits))?;
        let stream = FaultyStream::new(stream, &inside);
        let patience = Patience::with(limits, self.patience, DEFAULT_LEAST_RATE);
        PrivateClient::over(stream, &binding, &Wishes::default(), patience)
    }

    /// What the client still has, the server still has, or refuses as spent because the client did not hear that it was
    /// accepted; what the server spent is spent whatever file comes back.
    fn expect_spent_once(&self, case: Case, file: &UsedFile) {
        // A body that changed inside the channel is a peer that does not follow the protocol: it may have named another
        // inference, or spoiled this one.
        let is_lie = (case.level, case.fault) == (Level::Messages, Fault::CorruptBody);
        let attempt = || {
            let client = self.connect(Level::Messages, &Arc::default()).unwrap();
            let result = self.classify_from(client, &file.path);
            if let Ok(answer) = &result {
                assert!(is_lie || self.is_right(answer), "{case:?}: a wrong answer from a file");
            }
            result
        };
        if !file.path.exists() {
            return;
        }
        let left = PreparedFile::open(&file.path, key()).unwrap().remaining(0).unwrap();
        let copy = file.copy.clone().unwrap_or_else(|| std::fs::read(&file.path).unwrap());
        let is_refused_as_spent = |result: &Result<Answer, ClientError>| {
            matches!(result, Err(ClientError::Inference(InferenceError::Refused { refusal, .. }))
                if refusal.code == RefusalCode::Spent)
        };
        if left == 1 {
            let result = attempt();
            let is_whole = result.is_ok() || is_refused_as_spent(&result);
            assert!(is_lie || is_whole, "{case:?}: half an inference is left: {result:?}");
            let left = PreparedFile::open(&file.path, key()).unwrap().remaining(0).unwrap();
            assert!(is_lie || left == 0, "{case:?}: the file keeps what is spent");
        } else if file.copy.is_none() {
            return;
        } else {
            std::fs::write(&file.path, &copy).unwrap();
            // It may have broken before the server heard of it: then the copy is good, once.
            let _ = attempt();
        }
        std::fs::write(&file.path, &copy).unwrap();
        let again = attempt();
        assert!(
            is_lie && again.is_err() || is_refused_as_spent(&again),
            "{case:?}: {again:?} although it is spent"
        );
        std::fs::remove_file(&file.path).unwrap();
    }

    fn fresh_path(&self) -> PathBuf {
        self.folder.join(format!("{}.prepared", self.next_file.fetch_add(1, Ordering::SeqCst)))
    }

    fn is_right(&self, answer: &Answer) -> bool {
        match (answer, self.tolerance) {
            (Answer::Logits(logits), Some(tolerance)) => {
                logits.iter().zip(&self.expected).all(|(got, want)| (got - want).abs() <= tolerance)
            }
            _ => answer.class() == Answer::Logits(self.expected.clone()).class(),
        }
    }

    /// Until every session has ended and said why.
    fn settle(&self) {
        let made = self.connections.load(Ordering::SeqCst);
        self.server.wait_until(|service| {
            let metrics = service.metrics();
            metrics.connections.get() == made && metrics.clients.get() == 0
        });
        assert_eq!(self.server.service.now().running, 0);
    }
}

/// A file of prepared inferences and what it was before.
struct UsedFile {
    path: PathBuf,
    copy: Option<Vec<u8>>,
}

fn key() -> Secret<[u8; 32]> {
    Secret::new([4; 32])
}

fn serve(model: &InferenceModel, folder: &Path, patience: Duration) -> Running {
    let options = StoreOptions { per_client: 10_000, ..StoreOptions::in_folder(folder) };
    let store = Arc::new(PreparedStore::open(options).unwrap());
    // Thousands of faults an hour, all of one client.
    let per_client = ClientLimits::NONE;
    let limits = Limits { silence: patience, idle: patience, per_client, ..Limits::default() };
    Running::restart("model", model, limits, Some(store))
}
