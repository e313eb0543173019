//! How secrets are held: opaque when printed, wiped when dropped, compared in constant time.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::DefaultIsZeroes;

/// A value that must not be printed, is wiped on drop and compares in constant time.
pub struct Secret<T: Wipe>(T);

impl<T: Wipe> Secret<T> {
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

impl<T: Wipe> fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl<T: Wipe> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<T: Wipe + AsRef<[u8]>> ConstantTimeEq for Secret<T> {
    fn ct_eq(&self, other: &Self) -> subtle::Choice {
        self.0.as_ref().ct_eq(other.0.as_ref())
    }
}

impl<T: Wipe + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl<T: Wipe + AsRef<[u8]>> Eq for Secret<T> {}

/// What can be overwritten, so that nothing of it stays in memory.
///
/// `Zeroize` writes a vector element by element, and what it has room for byte by byte. An inference holds millions of
/// secret words for milliseconds, so here memory is written as one piece. The barrier behind it keeps the compiler from
/// dropping stores that nobody reads.
pub trait Wipe {
    /// Overwrites it with zeros.
    fn wipe(&mut self);
}

impl<W: DefaultIsZeroes> Wipe for [W] {
    fn wipe(&mut self) {
        self.fill(W::default());
        zeroize::optimization_barrier(self);
    }
}

impl<W: DefaultIsZeroes, const LENGTH: usize> Wipe for [W; LENGTH] {
    fn wipe(&mut self) {
        self.as_mut_slice().wipe();
    }
}

/// With the room that is not in use, where a longer value may have been.
impl<W: DefaultIsZeroes> Wipe for Vec<W> {
    fn wipe(&mut self) {
        self.clear();
        self.resize(self.capacity(), W::default());
        zeroize::optimization_barrier(self.as_slice());
        self.clear();
    }
}

impl Wipe for String {
    fn wipe(&mut self) {
        std::mem::take(self).into_bytes().wipe();
    }
}

impl Wipe for u128 {
    fn wipe(&mut self) {
        std::slice::from_mut(self).wipe();
    }
}

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

    impl Wipe for Probe {
        fn wipe(&mut self) {
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
    fn what_is_wiped_is_zero_with_the_room_behind_it() {
        let mut array = [7_u64; 5];
        array.wipe();
        assert_eq!(array, [0; 5]);
        let mut vector = vec![7_u32; 100];
        vector.truncate(3);
        vector.wipe();
        assert!(vector.is_empty() && vector.capacity() >= 100);
        // All of it was written, so it may be read.
        let room = vector.capacity();
        #[allow(unsafe_code)]
        // SAFETY: the vector has this much room, and `wipe` wrote all of it.
        unsafe {
            vector.set_len(room);
        }
        assert!(vector.iter().all(|word| *word == 0));
    }

    #[test]
    fn secrets_compare_by_value() {
        assert_eq!(Secret::new([1_u8, 2]), Secret::new([1_u8, 2]));
        assert_ne!(Secret::new([1_u8, 2]), Secret::new([1_u8, 3]));
    }
}
