//! Private inference against inference in the clear: both parties in this process, over memory.
//!
//! Two oracles judge each answer: the reference that repeats the protocol's own rounding, which it must equal bit for bit,
//! and the reference with plain rounding, to which it must be close. The first needs secrets of both parties
//! ([`ProtocolCoins`]); whoever has those of the client alone can still say whether an answer [`is_close`].

mod coins;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crypto::random::Seed;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference::bound::{self, ReluRounding};
use network::reference::{self, Difference};

pub use coins::{LinearErrors, ProtocolCoins, WrongShare};

use crate::InferenceError;
use crate::client::{Answer, Client, ShareRecord, Watch};
use crate::connection::{Connection, MemoryStream, Role, memory_pair};
use crate::plan::{Plan, Reveal, Terms};
use crate::server::{ServedModel, Server, WeightMemory};

/// Both parties share a process, so there is no channel to bind to.
const CHANNEL_BINDING: &[u8] = b"sordino verify";

/// One image.
pub struct Comparison {
    /// The logits of private inference.
    pub private: Vec<i64>,
    /// Those of the reference with the protocol's rounding.
    pub expected: Vec<i64>,
    /// Those of the reference with plain rounding.
    pub plain: Vec<i64>,
    /// The deviation to expect of the logit that is farthest off.
    pub deviation: f64,
    /// What the encryption added to values of linear layers.
    pub linear_errors: LinearErrors,
    /// Where the protocol's rounding first differs from the plain one.
    pub first_difference: Option<Difference>,
}

impl Comparison {
    /// Whether the class is that of plain rounding.
    pub fn class_agrees(&self) -> bool {
        let class = |logits: &[i64]| Answer::Logits(logits.to_vec()).class();
        class(&self.private) == class(&self.plain)
    }

    /// How far any logit is off plain rounding.
    pub fn logit_difference(&self) -> u64 {
        let pairs = self.private.iter().zip(&self.plain);
        pairs.map(|(private, plain)| private.abs_diff(*plain)).max().unwrap_or(0)
    }

    /// From the smallest logit to the largest.
    pub fn logit_range(&self) -> u64 {
        let [largest, smallest] = [self.plain.iter().max(), self.plain.iter().min()];
        largest.zip(smallest).map_or(0, |(largest, smallest)| largest.abs_diff(*smallest))
    }
}

/// A comparison that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// One of the parties could not go on.
    #[error(transparent)]
    Party(#[from] InferenceError),
    /// The server failed first, and so the client.
    #[error("the server failed; the client saw: {client}")]
    Server {
        /// What the client made of it.
        client: String,
        /// What happened.
        source: InferenceError,
    },
    /// Both parties' shares of a layer do not add up.
    #[error(transparent)]
    WrongShare(#[from] WrongShare),
    /// A thread is gone.
    #[error("the server's thread panicked")]
    Panicked,
    /// Not what was asked for.
    #[error("the class alone came, the logits were asked for")]
    ClassAlone,
}

/// Runs both parties on the images, one after the other; who watches is told of each layer of the offline phase.
///
/// # Errors
/// When the model cannot be served, or a party fails.
pub fn compare(
    model: &InferenceModel,
    images: &[Image],
    relus: ReluRounding,
    watch: impl FnOnce(&Plan) -> Watch,
) -> Result<Vec<Comparison>, VerifyError> {
    let count = images.len();
    let terms = Terms { reveal: Reveal::Logits, relus };
    let served = Arc::new(ServedModel::new(model, terms, WeightMemory::Everything)?);
    let (client_end, server_end) = memory_pair();
    let (tell, seeds) = channel();
    let server = thread::spawn(move || serve(server_end, served, count, &tell));
    let compared = compare_with_server(client_end, model, images, &seeds, watch);
    // The client's end is gone by now, so that the server ends too.
    let served = server.join().map_err(|_| VerifyError::Panicked)?;
    match (compared, served) {
        (Ok(comparisons), Ok(())) => Ok(comparisons),
        // Whoever fails breaks the other's connection: the cause is the other kind of error.
        (Err(client), Err(source)) if !matches!(source, InferenceError::Connection(_)) => {
            Err(VerifyError::Server { client: client.to_string(), source })
        }
        (Err(client), _) => Err(client),
        (Ok(_), Err(server)) => Err(server.into()),
    }
}

fn serve(
    end: MemoryStream,
    model: Arc<ServedModel>,
    count: usize,
    tell: &Sender<Seed>,
) -> Result<(), InferenceError> {
    let mut server = Server::accept(Connection::new(end, Role::Server), model, CHANNEL_BINDING)?;
    for _ in 0..count {
        let prepared = server.prepare()?;
        // Whoever no longer listens has failed, and says so.
        let _ = tell.send(prepared.mask_seed());
        server.classify(prepared)?;
    }
    Ok(())
}

fn compare_with_server(
    end: MemoryStream,
    model: &InferenceModel,
    images: &[Image],
    seeds: &Receiver<Seed>,
    watch: impl FnOnce(&Plan) -> Watch,
) -> Result<Vec<Comparison>, VerifyError> {
    let connection = Connection::new(end, Role::Client);
    let mut client = Client::connect(connection, Reveal::Logits, CHANNEL_BINDING)?;
    let watcher = watch(client.plan());
    client.watch(watcher);
    images.iter().map(|image| compare_one(&mut client, model, image, seeds)).collect()
}

fn compare_one(
    client: &mut Client<MemoryStream>,
    model: &InferenceModel,
    image: &Image,
    seeds: &Receiver<Seed>,
) -> Result<Comparison, VerifyError> {
    let mut prepared = client.prepare_recorded()?;
    let record = prepared.take_record().expect("the shares were recorded");
    let seed = seeds.recv().map_err(|_| VerifyError::Panicked)?;
    let coins = ProtocolCoins::new(model, client.plan(), record, &seed)?;
    let linear_errors = coins.linear_errors();
    let Answer::Logits(private) = client.classify(prepared, image)? else {
        return Err(VerifyError::ClassAlone);
    };
    let rounded_alike = reference::trace(model, image, Some(&coins)).map_err(InferenceError::from)?;
    let plain = reference::trace(model, image, None).map_err(InferenceError::from)?;
    let first_difference = plain.first_difference(&rounded_alike, model.outline());
    let off = |logit: &usize| private[*logit].abs_diff(plain.logits[*logit]);
    let farthest = (0..private.len()).max_by_key(off).unwrap_or(0);
    let deviation = bound::logit_deviation(model, &plain, farthest, ReluRounding::of(&coins));
    let (expected, plain) = (rounded_alike.logits, plain.logits);
    Ok(Comparison { private, expected, plain, deviation, linear_errors, first_difference })
}

/// Whether logits are as close to the reference as the protocol's rounding allows, judged by the client's shares alone: the
/// errors of the encryption are unknown, and so the statistical bound decides ([`bound`]).
///
/// # Errors
/// When the image has another size than the model takes.
pub fn is_close(
    model: &InferenceModel,
    image: &Image,
    record: &ShareRecord,
    logits: &[i64],
) -> Result<bool, InferenceError> {
    let expected = reference::run_with(model, image, record)?;
    let off = |logit: &usize| logits[*logit].abs_diff(expected[*logit]);
    let Some(farthest) = (0..expected.len().min(logits.len())).max_by_key(off) else { return Ok(false) };
    let plain = reference::trace(model, image, None)?;
    let deviation = bound::logit_deviation(model, &plain, farthest, ReluRounding::of(record));
    Ok(logits.len() == expected.len()
        && off(&farthest) as f64 <= bound::largest_difference(deviation, logits.len() as u64))
}
