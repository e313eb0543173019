//! A client of a Sordino server, in a few calls.
//!
//! ```no_run
//! use sordino_client::{ConnectOptions, Image, PrivateClient, Trust};
//!
//! let fingerprint = "6f1e…64 digits that `sordino serve` printed…".parse()?;
//! let mut client = PrivateClient::connect("hospital.example:7441", ConnectOptions::new(Trust::Fingerprint(fingerprint)))?;
//! let cost = client.cost()?;
//! println!("{} bytes, at least {:?} on this link", cost.bytes(), cost.least_time());
//! // The offline work needs no image: do it when there is time.
//! client.prepare(2)?;
//! let image = Image::new(client.outline().input, std::fs::read("scan.rgb")?)?;
//! let answer = client.classify(&image)?;
//! println!("class {}", client.outline().class_name(answer.class()).unwrap_or("without a name"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "tls")]
mod connect;
mod cost;
mod error;
#[cfg(feature = "tls")]
pub mod halves_folder;
#[cfg(feature = "images")]
pub mod images;
mod patience;
#[cfg(feature = "prepared-file")]
pub mod prepared_file;
mod rates;
#[cfg(feature = "tls")]
mod ready;
#[cfg(feature = "prepared-file")]
mod stored;

use std::collections::VecDeque;
use std::io::{Read, Write};

use inference::client::{Client, PreparedClient};
use inference::connection::{Connection, Role};
use inference::requests::{MAX_COUNT, Request};

#[cfg(feature = "tls")]
pub use connect::{ConnectOptions, DEFAULT_SILENCE};
pub use cost::Cost;
pub use error::ClientError;
pub use patience::Patience;
pub use rates::{PartyRates, PhaseRates, Rates};
#[cfg(feature = "tls")]
pub use ready::ReadyClient;
#[cfg(feature = "prepared-file")]
pub use stored::seconds_now;

// What the items above take and give, so that a program needs no other crate of ours.
pub use inference::InferenceError;
pub use inference::client::{Answer, HalvesCache, LinkSpeed, ShareRecord, Wishes};
#[cfg(feature = "tls")]
pub use inference::connection::{CertifiedKey, Fingerprint, NoFingerprint, TlsError, TlsStream, Trust};
pub use inference::plan::{Depth, ReluRounding, Reveal};
pub use inference::requests::{Room, StoredId};
pub use inference::setup::messages::ModelName;
pub use inference::transcript::Traffic;
pub use network::digest::Digest;
pub use network::image::Image;
pub use network::inference_model::ModelOutline;
pub use network::shape::Shape;

/// A client that is connected to a server and has chosen a model.
pub struct PrivateClient<#[cfg(feature = "tls")] S = TlsStream, #[cfg(not(feature = "tls"))] S> {
    session: Client<S>,
    patience: Patience,
    prepared: VecDeque<PreparedClient>,
    waiting: Box<dyn FnMut(u32) + Send>,
}

impl<S: Read + Write> PrivateClient<S> {
    /// Agrees on a model over a stream that is secured already.
    ///
    /// # Errors
    /// When the server has no such model, asks for more memory than allowed, or the connection breaks.
    pub fn over(
        stream: S,
        channel_binding: &[u8],
        wishes: &Wishes,
        patience: Patience,
    ) -> Result<Self, ClientError> {
        let connection = Connection::new(stream, Role::Client);
        let session = Client::connect_with(connection, wishes, channel_binding).map_err(ClientError::of)?;
        Ok(Self { session, patience, prepared: VecDeque::new(), waiting: Box::new(|_| {}) })
    }

    /// From here on this hears how many clients come first, whenever the server says so.
    pub fn on_waiting(&mut self, waiting: impl FnMut(u32) + Send + 'static) {
        self.waiting = Box::new(waiting);
    }

    /// What the client may know of the model.
    pub fn outline(&self) -> &ModelOutline {
        self.session.plan().outline()
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        self.session.model().as_str()
    }

    /// What the client learns; the server decides.
    pub fn reveal(&self) -> Reveal {
        self.session.plan().reveal()
    }

    /// How deep the trees of this session's transfers are.
    pub fn depth(&self) -> Depth {
        self.session.depth()
    }

    /// What one image costs on this link, which is measured for it with two megabytes at most. That takes a good ten round
    /// trips: where little is sent, [`PrivateClient::cost_on`] is enough.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn cost(&mut self) -> Result<Cost, ClientError> {
        self.patience.for_words();
        let link = self.session.measure_link()?;
        self.patience.rest();
        Ok(self.cost_on(link))
    }

    /// What one image costs on a link that is known; nothing is sent.
    pub fn cost_on(&self, link: LinkSpeed) -> Cost {
        let cost = Cost::planned(self.session.plan(), self.session.depth(), link);
        if self.session.has_halves() { cost.returning() } else { cost }
    }

    /// Does the offline work for so many images, to be classified over this connection.
    ///
    /// # Errors
    /// When they are more than 4096, the server refuses, or the connection breaks.
    pub fn prepare(&mut self, count: u32) -> Result<(), ClientError> {
        if count == 0 {
            return Ok(());
        }
        expect_count(count as usize)?;
        self.request(&Request::Prepare { count, store: None })?;
        let traffic = self.session.plan().traffic(self.session.depth()).offline;
        for _ in 0..count {
            self.patience.for_bytes(traffic.bytes_up + traffic.bytes_down);
            self.prepared.push_back(self.session.prepare()?);
        }
        self.patience.rest();
        Ok(())
    }

    /// Does the offline work for one image and gives the client's shares of it, which are secret: what an answer can be held
    /// against, bit by bit.
    ///
    /// # Errors
    /// When the server refuses or the connection breaks.
    pub fn prepare_recorded(&mut self) -> Result<ShareRecord, ClientError> {
        self.request(&Request::Prepare { count: 1, store: None })?;
        let traffic = self.session.plan().traffic(self.session.depth()).offline;
        self.patience.for_bytes(traffic.bytes_up + traffic.bytes_down);
        let mut prepared = self.session.prepare_recorded()?;
        self.patience.rest();
        let record = prepared.take_record().expect("the shares were recorded");
        self.prepared.push_back(prepared);
        Ok(record)
    }

    /// How many images can be classified without further preparation.
    pub fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// Classifies one image; prepares first where nothing is prepared.
    ///
    /// # Errors
    /// When the image has another size, the server refuses, or the connection breaks.
    pub fn classify(&mut self, image: &Image) -> Result<Answer, ClientError> {
        let mut answers = self.classify_batch(std::slice::from_ref(image))?;
        Ok(answers.pop().expect("one image gives one answer"))
    }

    /// Classifies several images that share every round trip; prepares what is missing.
    ///
    /// # Errors
    /// As [`PrivateClient::classify`], or when they are more than 4096.
    pub fn classify_batch(&mut self, images: &[Image]) -> Result<Vec<Answer>, ClientError> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        expect_count(images.len())?;
        for image in images {
            image.expect_shape(self.outline().input).map_err(InferenceError::from)?;
        }
        let missing = images.len().saturating_sub(self.prepared.len());
        if missing > 0 {
            self.prepare(missing as u32)?;
        }
        self.request(&Request::Classify { count: images.len() as u32 })?;
        let batch = self.prepared.drain(..images.len()).zip(images).collect();
        let traffic = self.session.plan().traffic(self.session.depth()).online;
        self.patience.for_bytes((traffic.bytes_up + traffic.bytes_down).saturating_mul(images.len() as u64));
        let answers = self.session.classify_batch(batch)?;
        self.patience.rest();
        Ok(answers)
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// When the connection is broken already.
    pub fn finish(self) -> Result<(), ClientError> {
        self.session.finish()?;
        Ok(())
    }

    /// Whether something failed on this connection: nothing more can be said over it.
    pub fn is_broken(&self) -> bool {
        self.session.connection().is_broken()
    }

    /// The session underneath.
    pub fn session_mut(&mut self) -> &mut Client<S> {
        &mut self.session
    }

    fn request(&mut self, request: &Request) -> Result<(), ClientError> {
        self.session.request(request, &mut self.waiting)?;
        Ok(())
    }
}

/// Refuses to ask for more at once than a request can name: the server would end the session.
fn expect_count(came: usize) -> Result<(), ClientError> {
    if came > MAX_COUNT as usize {
        return Err(ClientError::TooMany { came });
    }
    Ok(())
}
