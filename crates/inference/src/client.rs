//! The client: owns the image, learns the answer.
//!
//! A [`Client`] is a session over a connection and prepares inferences; a [`PreparedClient`] serves exactly one and is
//! spent by it. What it says and hears is in [`crate::setup`], `offline` and `online`; here bytes are moved.

mod answer;
mod halves;
mod progress;
mod requests;
mod wishes;

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crypto::ot::Depth;
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::random::{InferenceId, SessionId};
use crypto::ring::Share;
use network::digest::Digest;
use network::image::Image;

pub use answer::{Answer, ShareRecord};
pub use halves::{HalvesCache, MemoryHalves};
use progress::Watcher;
pub use progress::{Progress, Watch};
pub use requests::LinkSpeed;
pub use wishes::{DEFAULT_MAX_MEMORY, Wishes};

use crate::InferenceError;
use crate::connection::Connection;
use crate::conversation::Words;
use crate::nonlinear::PreparedClientPart;
use crate::offline::{self, client::PreparingClient};
use crate::online::{self, client::ClassifyingClient};
use crate::plan::{Plan, Reveal};
use crate::setup::client::{ClientSession, Greeting};
use crate::setup::messages::{Agreement, ModelName, ServerHello};
use crate::transcript::{Kind, Phase};
use crate::workers::Workers;

/// A client that is connected to a server.
pub struct Client<S> {
    connection: Connection<S>,
    session: ClientSession,
    watcher: Watcher,
    workers: Workers,
}

/// Offline material of the client for one inference. It has no copy and is spent by use, over the connection that made
/// it or over any other one to the same server.
#[derive(Debug)]
pub struct PreparedClient {
    pub(crate) made_for: Digest,
    pub(crate) session: SessionId,
    pub(crate) inference: InferenceId,
    /// Known to the client only.
    pub(crate) image_blind: Share,
    /// The client's share of the logits.
    pub(crate) logits: Share,
    pub(crate) parts: Vec<Box<dyn PreparedClientPart>>,
    pub(crate) record: Option<ShareRecord>,
}

impl PreparedClient {
    /// The shares that decide about rounding, if they were asked for.
    pub fn take_record(&mut self) -> Option<ShareRecord> {
        self.record.take()
    }
}

impl<S: Read + Write> Client<S> {
    /// Sets up a session with a server that has one model.
    ///
    /// # Errors
    /// As [`Client::connect_with`].
    pub fn connect(
        connection: Connection<S>,
        reveal: Reveal,
        channel_binding: &[u8],
    ) -> Result<Self, InferenceError> {
        let wishes = Wishes { reveal: Some(reveal), ..Wishes::default() };
        Self::connect_with(connection, &wishes, channel_binding)
    }

    /// Sets up a session: learns the outline, makes base transfers.
    ///
    /// # Errors
    /// When the peer speaks another version, has another model, its outline is not usable or asks for too much, or the
    /// connection breaks. The server is told why where that helps it.
    pub fn connect_with(
        mut connection: Connection<S>,
        wishes: &Wishes,
        channel_binding: &[u8],
    ) -> Result<Self, InferenceError> {
        let session =
            connection.exchange(Phase::SetUp, |connection| set_up(connection, wishes, channel_binding));
        let session = session.map_err(|error| connection.tell(error))?;
        Ok(Self { connection, session, watcher: Watcher::default(), workers: Workers::alone() })
    }

    /// Uses so many threads from here on.
    ///
    /// # Errors
    /// When the system does not give them.
    pub fn use_threads(&mut self, threads: NonZeroUsize) -> Result<(), InferenceError> {
        self.workers = Workers::new(threads)?;
        Ok(())
    }

    /// What both parties do.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.session.plan
    }

    /// How deep the trees of this session's transfers are.
    pub fn depth(&self) -> Depth {
        self.session.depth
    }

    /// Whether the second halves of the model's answers are here already, and the next inference does without them.
    pub fn has_halves(&self) -> bool {
        self.session.halves.are_complete()
    }

    /// The name of the model.
    pub fn model(&self) -> &ModelName {
        &self.session.model
    }

    /// What both parties agreed on: digests of outline and plan, the commitment to the weights.
    pub fn agreement(&self) -> &Agreement {
        &self.session.agreement
    }

    /// The bytes so far.
    pub fn connection(&self) -> &Connection<S> {
        &self.connection
    }

    /// From here on this is called for each layer whose offline work is done.
    pub fn watch(&mut self, watch: Watch) {
        self.watcher = Watcher(Some(watch));
    }

    /// Does the offline work for one inference.
    ///
    /// # Errors
    /// When the connection breaks or the peer's messages are malformed.
    pub fn prepare(&mut self) -> Result<PreparedClient, InferenceError> {
        self.prepare_with(false)
    }

    /// Like [`Client::prepare`], keeping the shares that decide about rounding. They are the client's own secrets:
    /// for tests and benchmarks that compare with the reference.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub fn prepare_recorded(&mut self) -> Result<PreparedClient, InferenceError> {
        self.prepare_with(true)
    }

    fn prepare_with(&mut self, records: bool) -> Result<PreparedClient, InferenceError> {
        let Self { connection, session, watcher, workers } = self;
        let prepared = connection.exchange(Phase::Offline, |connection| {
            let inference = session.next_inference();
            connection.concern(Some(inference));
            let plan = Arc::clone(&session.plan);
            let once = session.take_once();
            let messages = offline::messages::list(&plan, session.depth, once);
            let mut party = PreparingClient::new(session, workers, (inference, once.halves))?;
            let heard = |words, bytes| watcher.heard(&plan, words, bytes);
            connection.converse(&messages, Words::for_client, &[inference], &mut party, heard)?;
            let (prepared, times) = party.finish(records);
            connection.took(times);
            Ok(prepared)
        });
        prepared.map_err(|error| self.connection.tell(error))
    }

    /// Does the online work: image in, answer out.
    ///
    /// # Errors
    /// When the image has another size, the connection breaks or the peer's messages are malformed. The prepared
    /// material is spent in any case, and after an error the session is over.
    pub fn classify(&mut self, prepared: PreparedClient, image: &Image) -> Result<Answer, InferenceError> {
        let mut answers = self.classify_batch(vec![(prepared, image)])?;
        Ok(answers.pop().expect("one image gives one answer"))
    }

    /// Does the online work for several images that share every round trip. The server must expect as many.
    ///
    /// # Errors
    /// As [`Client::classify`].
    pub fn classify_batch(
        &mut self,
        batch: Vec<(PreparedClient, &Image)>,
    ) -> Result<Vec<Answer>, InferenceError> {
        let made_for = self.session.made_for();
        if batch.iter().any(|(prepared, _)| prepared.made_for != made_for) {
            return Err(InferenceError::ForeignMaterial);
        }
        let Self { connection, session, workers, .. } = self;
        let answers = connection.exchange(Phase::Online, |connection| {
            let inferences: Vec<_> = batch.iter().map(|(prepared, _)| prepared.inference).collect();
            let mut party = ClassifyingClient::new(&session.plan, workers, batch)?;
            let messages = online::messages::list(&session.plan);
            connection.converse(&messages, Words::for_client, &inferences, &mut party, |_, _| {})?;
            let (answers, times) = party.finish();
            connection.took(times);
            Ok(answers)
        });
        answers.map_err(|error| self.connection.tell(error))
    }
}

fn set_up<S: Read + Write>(
    connection: &mut Connection<S>,
    wishes: &Wishes,
    channel_binding: &[u8],
) -> Result<ClientSession, InferenceError> {
    let (hello, greeting) = Greeting::start(wishes)?;
    connection.send(Kind::SetUp, &hello.to_bytes())?;
    let hello = connection.receive_at_most(Kind::SetUp, greeting.max_hello_bytes())?;
    let (understood, agreed) = greeting.hear(ServerHello::from_bytes(&hello)?, channel_binding)?;
    connection.send(Kind::SetUp, &understood.to_bytes())?;
    connection.join(agreed.id);
    let (point, transferring) = agreed.start_transfers()?;
    connection.send(Kind::SetUp, &point.to_bytes())?;
    let points = ReceiverPoints::from_bytes(&connection.receive(Kind::SetUp, ReceiverPoints::BYTES)?)?;
    let reverse_point = match transferring.reverses() {
        true => Some(SenderPoint::from_bytes(&connection.receive(Kind::SetUp, SenderPoint::BYTES)?)?),
        false => None,
    };
    let (sums, reverse_points, session) = transferring.hear(&points, reverse_point.as_ref())?;
    connection.send(Kind::SetUp, sums.to_bytes().as_ref())?;
    if let Some(points) = reverse_points {
        connection.send(Kind::SetUp, points.to_bytes().as_ref())?;
    }
    connection.flush()?;
    Ok(session)
}
