//! Where prepared inferences outlive their session: the one trait of all stores.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crypto::secret::Secret;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::requests::{Room, StoredId};
use inference::server::{PreparedServer, ServedModel};
use inference::setup::messages::ModelName;

use crate::quotas::{Drawn, Quota};

/// Whose a stored inference is, and for which model.
#[derive(Clone)]
pub struct Owner {
    /// The model's name.
    pub model: ModelName,
    /// The model.
    pub served: Arc<ServedModel>,
    /// The client, for limits.
    pub client: ClientName,
}

/// Who a client is to the server: the fingerprint of its certificate, or the address it comes from. All limits for one
/// client are those of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientName(pub String);

impl ClientName {
    /// Who comes from an address without a certificate. An IPv6 network of 64 bits is one client: whoever has an address of
    /// it has all of them.
    pub fn of_address(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
                format!("{network}/64")
            }
        })
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A durable store of prepared inferences. Its calls come from the threads of sessions.
pub trait Store: Send + Sync {
    /// Whether this client may store so many more.
    ///
    /// # Errors
    /// When it may not, or the store fails.
    fn has_room(&self, owner: &Owner, count: u32) -> Result<(), StoreFault>;

    /// Stores one durably before it returns. Only who shows the token with this BLAKE3 hash may take it. Says when it
    /// expires, in seconds since 1970.
    ///
    /// # Errors
    /// When the store fails.
    fn put(
        &self,
        owner: &Owner,
        token_hash: &[u8; 32],
        id: StoredId,
        prepared: PreparedServer,
    ) -> Result<u64, StoreFault>;

    /// Takes all of them or none. They are durably spent before it returns.
    ///
    /// # Errors
    /// When one is unknown, spent, expired, of another model or of another token, or the store fails.
    fn take(
        &self,
        owner: &Owner,
        token: &Secret<[u8; 32]>,
        ids: &[StoredId],
    ) -> Result<Vec<PreparedServer>, StoreFault>;

    /// This process is done with it; what was spent is to leave no trace.
    fn close(&self) {}

    /// Draws from what a client may have in an hour, durably; none where this store keeps no quotas, so that the process
    /// keeps them itself.
    ///
    /// # Errors
    /// When the store fails.
    fn draw(
        &self,
        client: &ClientName,
        quota: Quota,
        count: u32,
        per_hour: u32,
    ) -> Result<Option<Drawn>, StoreFault> {
        let _ = (client, quota, count, per_hour);
        Ok(None)
    }

    /// How many a client could draw at this moment; none where this store keeps no quotas.
    ///
    /// # Errors
    /// When the store fails.
    fn left(&self, client: &ClientName, quota: Quota, per_hour: u32) -> Result<Option<u32>, StoreFault> {
        let _ = (client, quota, per_hour);
        Ok(None)
    }

    /// How much it would store for this client now.
    ///
    /// # Errors
    /// When the store fails, or cannot say.
    fn room(&self, _owner: &Owner) -> Result<Room, StoreFault> {
        Err(cannot_say())
    }

    /// What it stores for who shows this token, of all models, and as many as a reply can name.
    ///
    /// # Errors
    /// When the store fails, or cannot say.
    fn list(&self, _token: &Secret<[u8; 32]>) -> Result<Vec<StoredId>, StoreFault> {
        Err(cannot_say())
    }

    /// Drops all that it stores for who shows this token, of all models; says how many they were.
    ///
    /// # Errors
    /// When the store fails, or cannot do so.
    fn discard(&self, _token: &Secret<[u8; 32]>) -> Result<u64, StoreFault> {
        Err(cannot_say())
    }
}

fn cannot_say() -> StoreFault {
    let text = "this server's store neither lists nor discards; what is in it goes when it expires";
    StoreFault::Refused(Refusal::new(RefusalCode::NotStored, text))
}

/// Why something is not stored or not given back.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// The client is told.
    #[error("{0}")]
    Refused(Refusal),
    /// The operator is told; the client hears that this side failed.
    #[error("the store of prepared inferences failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_client_and_an_old_address_is_itself() {
        let name = |address: &str| ClientName::of_address(address.parse().unwrap()).0;
        assert_eq!(name("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(name("2001:db8:1:2::"), name("2001:db8:1:2:ffff::1"));
        assert_ne!(name("2001:db8:1:3::"), name("2001:db8:1:2::"));
        assert_eq!(
            (name("192.0.2.1"), name("::ffff:192.0.2.1")),
            ("192.0.2.1".to_owned(), "192.0.2.1".to_owned())
        );
    }
}
