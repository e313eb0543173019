//! Every domain-separation constant of the product, in one place, each used for one purpose.
//!
//! A constant is the context string of a BLAKE3 key derivation (`random::Seed::derive`) or of a BLAKE3 hash. Two
//! purposes that shared one would share keys, so a test below checks that all of them differ.
//! The hash of garbled gates needs no constants here: one counter over everything that is hashed in an inference
//! keeps its uses apart (`garble::hash`).

/// The context string of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain(&'static str);

impl Domain {
    /// The string as BLAKE3 takes it.
    pub const fn context(self) -> &'static str {
        self.0
    }
}

macro_rules! domains {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: Domain = Domain(concat!("sordino 2026-11 ", $text));)*
        /// All of them, for the test of uniqueness.
        pub const ALL: &[Domain] = &[$($name),*];
    };
}

domains! {
    /// The session id, from protocol version, both nonces, the digests of outline, commitment and plan, terms, depth of
    /// transfers and channel binding.
    SESSION_ID = "session id";
    /// What stands for an id in the header of a message.
    FRAME_TAG = "frame tag";
    /// What both parties derive from one outline.
    PLAN_DIGEST = "plan digest";
    /// The salted commitment to a model's weights.
    WEIGHT_COMMITMENT = "weight commitment";
    /// Keys of the base oblivious transfers.
    OT_BASE_KEY = "ot base key";
    /// Inner nodes of the trees of the OT extension.
    OT_TREE = "ot extension tree node";
    /// Streams expanded from the leaves of those trees.
    OT_LEAF = "ot extension leaf stream";
    /// The coefficients of the check of one chunk, from all that it corrects.
    OT_CHECK_CHALLENGE = "ot extension check challenge";
    /// The choices that hide the real ones in that check.
    OT_CHECK_MASK = "ot extension check mask";
    /// The digest of a chunk's hashed columns.
    OT_CHECK_DIGEST = "ot extension check digest";
    /// The id of the transfers in which the server chooses, from the id of the session.
    OT_REVERSE = "ot reverse transfers";
    /// The global free-XOR offset of a session.
    GARBLE_OFFSET = "garble offset";
    /// Zero labels of the garbler's own input wires.
    GARBLE_LABELS = "garble input labels";
    /// The key base of the gate hash of one inference.
    GARBLE_HASH_KEY = "garble hash key base";
    /// The garbler's bit of a known-MSB truncation.
    TRUNCATION_BIT = "truncation bit";
    /// The offset of the transfers in which the server chooses: the client's.
    GATE_OFFSET = "gate offset";
    /// The key base of the hash in those transfers, of one inference.
    GATE_HASH_KEY = "gate hash key base";
    /// The server's share of every sign of one inference.
    GATE_MASK = "gate sign mask";
    /// The client's one-time blinds.
    BLIND = "blind";
    /// The server's one-time masks of a linear layer's answer.
    HE_MASK = "he answer mask";
    /// The seed that the masks of one inference come from, which a server may store.
    MASKS_ROOT = "root of answer masks";
    /// The encryption of zero in a linear layer's answer, one for each output of a model.
    HE_ZERO = "he encryption of zero";
    /// The seed that those of one served model come from, from the salt of its commitment.
    HE_ZERO_ROOT = "he root of second halves";
    /// What a served model's second halves are known by: version, outline, commitment, plan.
    SECOND_HALVES = "second halves";
    /// The client's RLWE secret key.
    HE_SECRET_KEY = "he secret key";
    /// Errors of the client's ciphertexts.
    HE_ERROR = "he error";
    /// The uniform halves of the client's ciphertexts.
    HE_UNIFORM = "he ciphertext uniform half";
    /// The seeds of those uniform halves, which both parties derive from the model's public seed; none is sent.
    HE_UNIFORM_SEED = "he ciphertext uniform seed";
    /// The error of the client's public key.
    HE_PUBLIC_ERROR = "he public key error";
    /// The seed of all uniform halves, from what names the served model.
    HE_PUBLIC_SEED = "he public key seed";
    /// The uniform half of the public key.
    HE_PUBLIC_UNIFORM = "he public key uniform half";
    /// What kept material of the server belongs to: protocol version, what the client learns, model digest.
    KEPT_MODEL = "kept model";
    /// What prepared material of the client belongs to: protocol version, what it learns, outline digest.
    KEPT_PLAN = "kept plan";
    /// The key of one row of the server's store.
    STORE_ROW = "store row key";
    /// Whose limit a row counts against.
    STORE_OWNER = "store owner";
    /// What a row was prepared for.
    STORE_MODEL = "store model";
    /// What a client presents for a row.
    STORE_TOKEN = "store token";
    /// Whether a key is the one of a store.
    STORE_KEY_CHECK = "store key check";
    /// The salt of one model's commitment, from a key that several servers share.
    SHARED_SALT = "shared salt of a commitment";
    /// The seed of the certificate that several servers share.
    SHARED_IDENTITY = "shared identity seed";
    /// The key of a file of prepared inferences.
    PREPARED_FILE = "prepared file key";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_domains_have_one_context() {
        let mut contexts: Vec<_> = ALL.iter().map(|domain| domain.context()).collect();
        contexts.sort_unstable();
        contexts.dedup();
        assert_eq!(contexts.len(), ALL.len());
    }
}
