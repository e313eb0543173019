//! How secrets are held: opaque when printed, wiped when dropped, compared in constant time.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// A value that must not be printed, is wiped on drop and compares in constant time.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes the value into custody. The caller's own copies are the caller's to wipe.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Lends the value. Every use is a place a reviewer should look at.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Lends the value for writing.
    pub fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize + AsRef<[u8]>> ConstantTimeEq for Secret<T> {
    fn ct_eq(&self, other: &Self) -> subtle::Choice {
        self.0.as_ref().ct_eq(other.0.as_ref())
    }
}

impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

/// A statement, made at the call site, that the data handed to a variable-time routine is public.
///
/// Routines that branch, divide or index on their input take this token, so that a search for
/// `PublicData::because` lists every such place with its reason.
#[derive(Clone, Copy, Debug)]
pub struct PublicData(());

impl PublicData {
    /// Declares the data public; the reason is for the reader.
    pub const fn because(_reason: &'static str) -> Self {
        Self(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Probe(Rc<RefCell<Vec<&'static str>>>);

    impl Zeroize for Probe {
        fn zeroize(&mut self) {
            self.0.borrow_mut().push("wiped");
        }
    }

    #[test]
    fn a_secret_prints_as_nothing() {
        assert_eq!(format!("{:?}", Secret::new([7_u8; 4])), "Secret(..)");
    }

    #[test]
    fn a_secret_is_wiped_on_drop() {
        let log = Rc::new(RefCell::new(Vec::new()));
        drop(Secret::new(Probe(Rc::clone(&log))));
        assert_eq!(*log.borrow(), ["wiped"]);
    }

    #[test]
    fn secrets_compare_by_value() {
        assert_eq!(Secret::new([1_u8, 2]), Secret::new([1_u8, 2]));
        assert_ne!(Secret::new([1_u8, 2]), Secret::new([1_u8, 3]));
    }
}
