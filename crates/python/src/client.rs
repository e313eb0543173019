//! A session with a server.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use client::{ClientError, ConnectOptions, PrivateClient};
use inference::client::{Answer, Wishes};
use inference::connection::Trust;
use inference::setup::messages::ModelName;
use network::text::with_causes;
use pyo3::prelude::*;

use crate::error::{SessionError, of_session};
use crate::images::{images, sides};
use crate::waiting::{Interrupt, without_interpreter};

/// A client that is connected and has chosen a model.
#[pyclass(frozen, module = "sordino._native")]
pub(crate) struct Client {
    session: Arc<Session>,
    model: String,
    shape: network::shape::Shape,
    classes: usize,
    class_names: Vec<String>,
    logit_fraction: i64,
}

/// What calls share: one of them at a time says something over the connection.
struct Session {
    client: Mutex<Option<PrivateClient>>,
    /// Somebody stopped waiting in the middle of a call: what the connection says next is not known.
    is_given_up: AtomicBool,
}

/// How to connect.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    model: String,
    threads: NonZeroUsize,
    max_memory: Option<u64>,
    cache: Option<PathBuf>,
}

/// The class, and the logits where the server reveals them.
type Found = (usize, Option<Vec<i64>>);

#[pymethods]
impl Client {
    /// Connects to `HOST:PORT` and agrees on a model.
    #[staticmethod]
    fn connect(py: Python<'_>, server: String, fingerprint: &str, options: Options) -> PyResult<Self> {
        let trust = Trust::Fingerprint(fingerprint.parse().map_err(of_session)?);
        let mut wishes =
            Wishes { model: ModelName::new(&options.model).map_err(of_session)?, ..Wishes::default() };
        wishes.max_memory = options.max_memory.unwrap_or(wishes.max_memory);
        let Options { threads, cache: halves, .. } = options;
        let options = ConnectOptions { wishes, threads, halves, ..ConnectOptions::new(trust) };
        let client = without_interpreter(py, move |_| PrivateClient::connect(&server, options))?;
        let client = client.map_err(of_session)?;
        let outline = client.outline();
        Ok(Self {
            model: client.model().to_owned(),
            shape: outline.input,
            classes: outline.classes,
            class_names: outline.class_names.clone(),
            logit_fraction: outline.logit_fraction(),
            session: Arc::new(Session {
                client: Mutex::new(Some(client)),
                is_given_up: AtomicBool::new(false),
            }),
        })
    }

    /// The model's name.
    #[getter]
    fn model(&self) -> &str {
        &self.model
    }

    /// Channels, height, width.
    #[getter]
    fn input_shape(&self) -> (usize, usize, usize) {
        sides(self.shape)
    }

    /// How many classes there are.
    #[getter]
    fn classes(&self) -> usize {
        self.classes
    }

    /// What they are called; empty where they have no names.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.class_names.clone()
    }

    /// Fraction bits of the logits.
    #[getter]
    fn logit_fraction(&self) -> i64 {
        self.logit_fraction
    }

    /// Does the offline work for so many images.
    fn prepare(&self, py: Python<'_>, count: u32) -> PyResult<()> {
        self.ask(py, move |client, interrupt| {
            // One by one, so that the work ends soon after nobody waits.
            (0..count).take_while(|_| !interrupt.is_set()).try_for_each(|_| client.prepare(1))
        })
    }

    /// How many images can be classified without further preparation.
    fn prepared(&self, py: Python<'_>) -> PyResult<usize> {
        self.ask(py, |client, _| Ok(client.prepared()))
    }

    /// Classifies the images of these bytes, which share every round trip.
    fn classify(&self, py: Python<'_>, pixels: &[u8]) -> PyResult<Vec<Found>> {
        let images = images(self.shape, pixels)?;
        let answers = self.ask(py, move |client, _| client.classify_batch(&images))?;
        let found = |answer: Answer| {
            let class = answer.class();
            match answer {
                Answer::Logits(logits) => (class, Some(logits)),
                Answer::Class(_) => (class, None),
            }
        };
        Ok(answers.into_iter().map(found).collect())
    }

    /// Says goodbye; what was prepared is lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = Arc::clone(&self.session);
        without_interpreter(py, move |_| {
            // A connection that broke before needs no goodbye.
            let _ = session.client().take().map(PrivateClient::finish);
        })
    }
}

impl Client {
    /// Says something over the connection. Whoever stops waiting in the middle gives the connection up.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut PrivateClient, &Interrupt) -> Result<T, ClientError> + Send + 'static,
    ) -> PyResult<T> {
        let session = Arc::clone(&self.session);
        if session.is_given_up.load(Ordering::Acquire) {
            return Err(SessionError::new_err(INTERRUPTED));
        }
        let answer = without_interpreter(py, move |interrupt| {
            let mut place = session.client();
            let client = place.as_mut().ok_or_else(|| CLOSED.to_owned())?;
            let answer = question(client, interrupt);
            if interrupt.is_set() || client.is_broken() {
                *place = None;
            }
            answer.map_err(|error| with_causes(&error))
        });
        let answer = answer.inspect_err(|_| self.session.is_given_up.store(true, Ordering::Release))?;
        answer.map_err(SessionError::new_err)
    }
}

impl Session {
    fn client(&self) -> std::sync::MutexGuard<'_, Option<PrivateClient>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CLOSED: &str = "this client is closed, or its connection broke; connect again";
const INTERRUPTED: &str = "this client was interrupted in the middle of a call; connect again";
