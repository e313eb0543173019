//! Records under ChaCha20-Poly1305 (RFC 8439), as TLS 1.3 seals them (RFC 8446, section 5.2).

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, Nonce, Tag};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

/// The cipher.
pub(super) struct ChaCha20Poly1305;

impl Tls13AeadAlgorithm for ChaCha20Poly1305 {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Records::new(&key, iv))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Records::new(&key, iv))
    }

    fn key_len(&self) -> usize {
        KEY_BYTES
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv })
    }
}

/// One direction of a connection.
struct Records {
    cipher: chacha20poly1305::ChaCha20Poly1305,
    iv: Iv,
}

impl Records {
    fn new(key: &AeadKey, iv: Iv) -> Self {
        let key = Key::try_from(key.as_ref()).expect("TLS derives as many bytes as it was asked for");
        Self { cipher: chacha20poly1305::ChaCha20Poly1305::new(&key), iv }
    }

    fn nonce(&self, number: u64) -> Nonce {
        Nonce::from(rustls::crypto::cipher::Nonce::new(&self.iv, number).0)
    }
}

impl MessageEncrypter for Records {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&[message.typ.into()]);
        let (nonce, header) = (self.nonce(number), make_tls13_aad(length));
        let tag = self.cipher.encrypt_inout_detached(&nonce, &header, payload.as_mut().into());
        payload.extend_from_slice(&tag.map_err(|_| Error::EncryptError)?);
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, payload: usize) -> usize {
        payload + 1 + TAG_BYTES
    }
}

impl MessageDecrypter for Records {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let length = message.payload.len();
        let inside = length.checked_sub(TAG_BYTES).ok_or(Error::DecryptError)?;
        let (nonce, header) = (self.nonce(number), make_tls13_aad(length));
        let (bytes, tag) = message.payload.split_at_mut(inside);
        let tag = Tag::try_from(&*tag).map_err(|_| Error::DecryptError)?;
        let opened = self.cipher.decrypt_inout_detached(&nonce, &header, bytes.into(), &tag);
        opened.map_err(|_| Error::DecryptError)?;
        message.payload.truncate(inside);
        message.into_tls13_unpadded_message()
    }
}
