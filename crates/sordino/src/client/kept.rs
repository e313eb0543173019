//! Inferences that were prepared ahead and lie in a file.

use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use crypto::secret::Secret;
use inference::InferenceError;
use inference::client::Answer;
use inference::requests::{KeptId, Request};
use network::image::Image;

use super::{ClientError, PrivateClient};
use crate::service::prepared_file::{Description, PreparedFile};
use crate::service::store::{ClientToken, Kept};

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

    /// Does the offline work for one image, to be classified over any later connection. When this returns, both halves
    /// are durable: the server's in its store, the client's in the file.
    ///
    /// # Errors
    /// When the file is another model's or full, the server keeps nothing or no more, or the connection breaks.
    pub fn prepare_into(&mut self, file: &mut PreparedFile) -> Result<(), ClientError> {
        self.expect_same_agreement(file)?;
        let request = Request::Prepare { count: 1, keep: Some(file.description().token.hash()) };
        let ids = self.session.request(&request, &mut self.waiting)?;
        let [id] = ids[..] else { return Err(ClientError::NotNamed { came: ids.len() }) };
        let traffic = self.session.plan().traffic().offline;
        self.allow(traffic.bytes_up + traffic.bytes_down);
        let prepared = self.session.prepare()?;
        let expires = self.session.await_kept()?;
        self.limits.allow(None);
        file.add(Kept { id, expires }, prepared, self.session.plan())?;
        Ok(())
    }

    /// Classifies images with inferences from a file, which are destroyed there first. Only the online phase is paid for.
    ///
    /// # Errors
    /// When the file is another model's or holds too few, the server does not know them any more, or the connection
    /// breaks. What was taken out of the file is lost then.
    pub fn classify_from(
        &mut self,
        file: &mut PreparedFile,
        images: &[Image],
    ) -> Result<Vec<Answer>, ClientError> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        self.expect_same_agreement(file)?;
        for image in images {
            image.expect_shape(self.outline().input).map_err(InferenceError::from)?;
        }
        let now = seconds_now();
        let left = file.remaining(now)?;
        if (left as usize) < images.len() {
            return Err(ClientError::TooFewPrepared { left, images: images.len() });
        }
        let (mut ids, mut batch) = (Vec::<KeptId>::new(), Vec::new());
        for image in images {
            let taken = file.take(now, self.session.plan())?;
            ids.push(taken.id);
            batch.push((taken.prepared, image));
        }
        let token = Secret::new(*file.description().token.expose());
        // The file has forgotten them; from here on they are used or lost.
        self.request(&Request::ClassifyKept { token, ids })?;
        let traffic = self.session.plan().traffic().online;
        self.allow((traffic.bytes_up + traffic.bytes_down).saturating_mul(images.len() as u64));
        let answers = self.session.classify_batch(batch)?;
        self.limits.allow(None);
        Ok(answers)
    }

    fn expect_same_agreement(&self, file: &PreparedFile) -> Result<(), ClientError> {
        match file.description().agreement.difference(self.session.agreement()) {
            None => Ok(()),
            Some(what) => Err(ClientError::OtherModel { what }),
        }
    }
}

/// Seconds since 1970.
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
