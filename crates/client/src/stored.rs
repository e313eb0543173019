//! Inferences that were prepared ahead and lie in a file.

use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use crypto::secret::Secret;
use inference::InferenceError;
use inference::client::Answer;
use inference::connection::refusal::RefusalCode;
use inference::requests::{Request, Room, StoredId};
use network::image::Image;
use sealed::ClientToken;

use crate::prepared_file::{Chosen, Description, PreparedFile, StoredEntry};
use crate::{ClientError, PrivateClient, expect_count};

impl<S: Read + Write> PrivateClient<S> {
    /// What a file of inferences of this session's server and model says about itself, with a fresh token.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn describe_file(&self, server: &str) -> Result<Description, ClientError> {
        Ok(Description {
            token: ClientToken::random().map_err(InferenceError::from)?,
            server: server.to_owned(),
            model: self.model().to_owned(),
            agreement: *self.session.agreement(),
        })
    }

    /// How many inferences of this model the server would store for this client now.
    ///
    /// # Errors
    /// When the server stores none, or the connection breaks.
    pub fn room(&mut self) -> Result<Room, ClientError> {
        self.patience.for_words();
        let room = self.session.ask_room()?;
        self.patience.rest();
        Ok(room)
    }

    /// Which inferences of a file the server still has, 4096 of them at most.
    ///
    /// # Errors
    /// When the server stores none, or the connection breaks.
    pub fn list_stored(&mut self, file: &PreparedFile) -> Result<Vec<StoredId>, ClientError> {
        self.patience.for_words();
        let ids = self.session.list_stored(Secret::new(*file.description().token.expose()))?;
        self.patience.rest();
        Ok(ids)
    }

    /// Has the server drop its halves of all inferences of a file, whichever model they are for; says how many they were.
    /// The file is not touched.
    ///
    /// # Errors
    /// When the server stores none, or the connection breaks.
    pub fn discard_stored(&mut self, file: &PreparedFile) -> Result<u64, ClientError> {
        self.patience.for_words();
        let count = self.session.discard_stored(Secret::new(*file.description().token.expose()))?;
        self.patience.rest();
        Ok(count)
    }

    /// Does the offline work for one image, to be classified over any later connection. When this returns, both halves
    /// are durable: the server's in its store, the client's in the file.
    ///
    /// # Errors
    /// When the file is another model's or full, the server keeps nothing or no more, or the connection breaks.
    pub fn prepare_into(&mut self, file: &mut PreparedFile) -> Result<(), ClientError> {
        self.expect_same_agreement(file)?;
        let request = Request::Prepare { count: 1, store: Some(file.description().token.hash()) };
        let ids = self.session.request(&request, &mut self.waiting)?;
        let [id] = ids[..] else { return Err(ClientError::NotNamed { came: ids.len() }) };
        let traffic = self.session.plan().traffic(self.session.depth()).offline;
        self.patience.for_bytes(traffic.bytes_up + traffic.bytes_down);
        let prepared = self.session.prepare()?;
        let expires = self.session.await_stored()?;
        self.patience.rest();
        file.add(StoredEntry { id, expires }, prepared, self.session.plan())?;
        Ok(())
    }

    /// Classifies images with inferences from a file. Only the online phase is paid for.
    ///
    /// They are destroyed in the file after the server has accepted, and has spent its own halves thereby, and before
    /// anything of the images is sent. So one that the server does not take, because it is busy, say, is still there
    /// afterwards; one that the server no longer knows is destroyed, too.
    ///
    /// # Errors
    /// When the file is another model's or holds too few, the images are more than 4096, the server refuses, or the connection
    /// breaks. What the server had accepted by then is lost.
    pub fn classify_from(
        &mut self,
        file: &mut PreparedFile,
        images: &[Image],
    ) -> Result<Vec<Answer>, ClientError> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        expect_count(images.len())?;
        self.expect_same_agreement(file)?;
        for image in images {
            image.expect_shape(self.outline().input).map_err(InferenceError::from)?;
        }
        let now = seconds_now();
        let left = file.remaining(now)?;
        if (left as usize) < images.len() {
            return Err(ClientError::TooFewPrepared { left, images: images.len() });
        }
        let chosen = file.choose(now, images.len())?;
        let token = Secret::new(*file.description().token.expose());
        let ids = chosen.iter().map(Chosen::id).collect();
        if let Err(error) = self.request(&Request::ClassifyStored { token, ids }) {
            forget_spent(file, chosen, &error)?;
            return Err(error);
        }
        let mut batch = Vec::with_capacity(images.len());
        for (chosen, image) in chosen.into_iter().zip(images) {
            batch.push((file.take(chosen, self.session.plan())?.prepared, image));
        }
        // The file has forgotten them, and so has the server: from here on they are used or lost.
        let traffic = self.session.plan().traffic(self.session.depth()).online;
        self.patience.for_bytes((traffic.bytes_up + traffic.bytes_down).saturating_mul(images.len() as u64));
        let answers = self.session.classify_batch(batch)?;
        self.patience.rest();
        Ok(answers)
    }

    fn expect_same_agreement(&self, file: &PreparedFile) -> Result<(), ClientError> {
        match file.description().agreement.difference(self.session.agreement()) {
            None => Ok(()),
            Some(what) => Err(ClientError::OtherModel { what }),
        }
    }
}

/// Destroys what the server says it does not know: it would be refused again and again. Where the refusal names one, that
/// one is meant, if it is ours; where it names none, all of them are.
fn forget_spent(
    file: &mut PreparedFile,
    chosen: Vec<Chosen>,
    error: &ClientError,
) -> Result<(), ClientError> {
    let ClientError::Inference(InferenceError::Refused { refusal, .. }) = error else { return Ok(()) };
    if refusal.code != RefusalCode::Spent {
        return Ok(());
    }
    let named = refusal.subject();
    for chosen in chosen.into_iter().filter(|chosen| named.is_none_or(|id| id == chosen.id())) {
        file.discard(chosen)?;
    }
    Ok(())
}

/// Seconds since 1970.
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
