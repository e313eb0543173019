//! The page's questions and their answers.
//!
//! ```text
//! connect   fingerprint, model, depth     -> Connected    the model's shape and classes, bytes to come
//! look      the bytes of an image file    -> Looked       what the network will see of it
//! prepare   nothing                       -> Counted      the offline work for one image
//! classify  the image looked at last      -> Classified   logits, or the class alone
//! ```

use std::io::{Read, Write};
use std::sync::Arc;

use client::images::{ImageFault, decode_image};
use client::{ClientError, Patience, PrivateClient};
use crypto::ot::Depth;
use crypto::ring::RingVector;
use inference::client::{Answer, MemoryHalves, Progress, ShareRecord, Wishes};
use inference::connection::{Fingerprint, NoFingerprint};
use inference::setup::messages::ModelName;
use inference::transcript::{Phase, Traffic};
use network::image::Image;
use network::text::with_causes;
use serde::{Deserialize, Serialize};

use crate::overheard::{Ear, Overheard};
use crate::secured::{Secured, SecuredError};

/// What a page wants of a server.
#[derive(Clone, Debug, Deserialize)]
pub struct Wanted {
    /// The server's, as hexadecimal digits.
    pub fingerprint: String,
    /// Its name; empty where there is one alone.
    #[serde(default)]
    pub model: String,
    /// Whether the server is on this machine, where bytes cost less than computing.
    #[serde(default)]
    pub is_near: bool,
}

/// What the page may know of the model.
#[derive(Clone, Debug, Serialize)]
pub struct Connected {
    /// The model's name.
    pub model: String,
    /// Channels, height and width of an image.
    pub input: [usize; 3],
    /// Names of the classes, in the order of the logits; empty where nobody named them.
    pub class_names: Vec<String>,
    /// How many classes there are.
    pub classes: usize,
    /// A logit is an integer times two to the minus this.
    pub logit_fraction: i32,
    /// What crosses the link before the image is needed, for the first image and for each further one; and after.
    pub offline_bytes: u64,
    /// For each further image.
    pub later_offline_bytes: u64,
    /// After the image is known.
    pub online_bytes: u64,
    /// Changes of direction after the image is known.
    pub online_rounds: u64,
    /// Layers that report while an inference is prepared.
    pub layers: usize,
}

/// What the network will see.
#[derive(Clone, Debug, Serialize)]
pub struct Looked {
    /// Channels, height and width.
    pub shape: [usize; 3],
    /// Bytes in channel, row, column order.
    pub pixels: Vec<u8>,
}

/// What crossed the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// To the server.
    pub bytes_up: u64,
    /// From it.
    pub bytes_down: u64,
    /// Changes of direction.
    pub rounds: u64,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Classified {
    /// The best class.
    pub class: usize,
    /// All of them, where the server reveals them.
    pub logits: Option<Vec<i64>>,
    /// What it took after the image was known.
    pub counted: Counted,
    /// The image as the server got it.
    pub server_view: Option<ServerView>,
}

/// What the server got of an image: its share of each value, as it was sent. Each of them is equally likely whatever the
/// image is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerView {
    /// Bits of each number.
    pub bits: u32,
    /// One number for each value of the image, in channel, row, column order.
    pub values: Vec<u64>,
}

/// A layer is ready.
#[derive(Clone, Debug, Serialize)]
pub struct Ready<'a> {
    /// Its name.
    pub layer: &'a str,
    /// Bytes of all offline work of this session so far.
    pub bytes: u64,
}

thread_local! {
    /// Second halves of the models that this page has met, by server: a page that connects again does without them.
    static HALVES: Arc<MemoryHalves> = Arc::new(MemoryHalves::default());
}

/// A client that is connected.
pub struct Session<S: Read + Write> {
    client: PrivateClient<Overheard<Secured<S>>>,
    ear: Ear,
    image: Option<Image>,
}

impl<S: Read + Write> Session<S> {
    /// Connects over a stream. Whoever waits is told of layers as they get ready.
    ///
    /// # Errors
    /// When the server is another one, has no such model, or the stream ends.
    pub fn connect(
        stream: S,
        wanted: &Wanted,
        tell: impl FnMut(Progress<'_>) + Send + 'static,
    ) -> Result<Self, SessionError> {
        let pinned: Fingerprint = wanted.fingerprint.parse()?;
        let model = ModelName::new(&wanted.model).map_err(|_| SessionError::NoName(wanted.model.clone()))?;
        let (stream, binding) = Secured::connect(stream, pinned)?;
        let depth = if wanted.is_near { Depth::Four } else { Depth::Eight };
        let halves = HALVES.with(|all| all.of_server(&pinned.0));
        let wishes = Wishes { model, depth: Some(depth), halves: Some(halves), ..Wishes::default() };
        let (stream, ear) = Overheard::new(stream);
        let mut client = PrivateClient::over(stream, &binding, &wishes, Patience::endless())?;
        client.session_mut().watch(Box::new(tell));
        Ok(Self { client, ear, image: None })
    }

    /// What the page may know of the model.
    pub fn connected(&mut self) -> Connected {
        let (plan, has_halves) =
            (self.client.session_mut().plan().clone(), self.client.session_mut().has_halves());
        let traffic = plan.traffic(self.client.depth());
        let bytes = |traffic: Traffic| traffic.bytes_up + traffic.bytes_down;
        let outline = self.client.outline();
        Connected {
            model: self.client.model().to_owned(),
            input: [outline.input.channels, outline.input.height, outline.input.width],
            class_names: outline.class_names.clone(),
            classes: outline.classes,
            logit_fraction: outline.logit_fraction() as i32,
            offline_bytes: bytes(if has_halves { traffic.returning_offline } else { traffic.offline }),
            later_offline_bytes: bytes(traffic.later_offline),
            online_bytes: bytes(traffic.online),
            online_rounds: traffic.online.rounds,
            layers: plan.layer_count(),
        }
    }

    /// Decodes an image file as the network takes it; the next classification is about it.
    ///
    /// # Errors
    /// When it is no image.
    pub fn look(&mut self, file: &[u8]) -> Result<Looked, SessionError> {
        let image = decode_image(file, self.client.outline().input)?;
        let shape = image.shape();
        let looked =
            Looked { shape: [shape.channels, shape.height, shape.width], pixels: image.pixels().to_vec() };
        self.image = Some(image);
        Ok(looked)
    }

    /// Does the offline work for one image.
    ///
    /// # Errors
    /// When the server refuses or the stream ends.
    pub fn prepare(&mut self) -> Result<Counted, SessionError> {
        let before = self.traffic(Phase::Offline);
        self.client.prepare(1)?;
        Ok(since(before, self.traffic(Phase::Offline)))
    }

    /// Does the offline work for one image and gives the client's shares: what an answer can be held against, bit by bit. They
    /// are secret; no page asks for them.
    ///
    /// # Errors
    /// When the server refuses or the stream ends.
    pub fn prepare_recorded(&mut self) -> Result<ShareRecord, SessionError> {
        Ok(self.client.prepare_recorded()?)
    }

    /// Classifies the image looked at last; prepares first where nothing is prepared.
    ///
    /// # Errors
    /// When there is no image, the server refuses or the stream ends.
    pub fn classify(&mut self) -> Result<Classified, SessionError> {
        let image = self.image.take().ok_or(SessionError::NoImage)?;
        if self.client.prepared() == 0 {
            self.client.prepare(1)?;
        }
        let before = self.traffic(Phase::Online);
        self.ear.listen(LISTENED_BYTES + size_of::<u64>() * image.pixels().len());
        let answer = self.client.classify(&image)?;
        let counted = since(before, self.traffic(Phase::Online));
        let class = answer.class();
        let logits = match answer {
            Answer::Logits(logits) => Some(logits),
            Answer::Class(_) => None,
        };
        Ok(Classified { class, logits, counted, server_view: self.server_view(&image) })
    }

    fn server_view(&mut self, image: &Image) -> Option<ServerView> {
        let width = self.client.session_mut().plan().image_width();
        let values = RingVector::from_bytes(width, image.pixels().len(), &self.ear.values()?).ok()?;
        Some(ServerView { bits: width.bits(), values: values.to_unsigned() })
    }

    fn traffic(&mut self, phase: Phase) -> Traffic {
        self.client.session_mut().connection().transcript().phase(phase)
    }
}

/// What may come before the image's own frame: the request for a classification, and headers.
const LISTENED_BYTES: usize = 4096;

fn since(before: Traffic, now: Traffic) -> Counted {
    Counted {
        bytes_up: now.bytes_up - before.bytes_up,
        bytes_down: now.bytes_down - before.bytes_down,
        rounds: now.rounds - before.rounds,
    }
}

/// Why a page has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No fingerprint.
    #[error(transparent)]
    Fingerprint(#[from] NoFingerprint),
    /// No name.
    #[error("{0:?} is no name of a model")]
    NoName(String),
    /// The stream could not be secured.
    #[error(transparent)]
    Secured(#[from] SecuredError),
    /// The protocol did not come to its end.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No image.
    #[error(transparent)]
    Image(#[from] ImageFault),
    /// Nothing was looked at.
    #[error("there is no image to classify; choose one first")]
    NoImage,
    /// Nobody is connected.
    #[error("there is no connection; connect first")]
    NotConnected,
    /// The page asks for something that does not exist.
    #[error("the page's question makes no sense to this module; load the page again")]
    Question(#[source] serde_json::Error),
}

impl SessionError {
    /// A word for it that the page knows: it decides what to offer next.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fingerprint(_) => "no-fingerprint",
            Self::Secured(SecuredError::OtherServer(_)) => "other-server",
            Self::Secured(_) | Self::Client(_) | Self::NotConnected => "connection",
            Self::Image(_) | Self::NoImage => "image",
            Self::NoName(_) | Self::Question(_) => "question",
        }
    }

    /// Itself and its causes, for a person.
    pub fn text(&self) -> String {
        with_causes(self)
    }
}
