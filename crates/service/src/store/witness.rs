//! A small file outside the database that remembers the last spend this machine knows of, and by which name the machine
//! joined the store.
//!
//! A database that was put back from an old copy has lost that spend, or the machine. Then nobody can tell which of its
//! rows are spent, and all of them go.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::StoreError;
use super::rows::{State, Transaction};
use sealed::secret_file::{create_private, failing, replace_durably};

const HEADLINE: &str = "sordino witness 2";

/// The file.
pub(super) struct Witness {
    path: PathBuf,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    /// Random, registered in the store; the first format had none.
    machine: Option<[u8; 16]>,
    store: [u8; 16],
    generation: i64,
    mark: [u8; 16],
    /// The last moment that any row of that time may live to.
    until: i64,
    place: String,
}

/// What the witness says about a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Testimony {
    /// Nothing that it knew is missing.
    Sound,
    /// It never saw this database, or any.
    Strange,
    /// Something is missing: the database is an old copy.
    Restored,
}

impl Witness {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Compares the database with what this machine saw last. When all rows of that time have expired, in every copy,
    /// there is nothing to prove.
    pub(super) fn examine(
        &self,
        state: &State,
        transaction: &mut dyn Transaction,
        now: i64,
    ) -> Result<Testimony, StoreError> {
        let Some(memory) = self.read()? else { return Ok(Testimony::Strange) };
        if memory.store != state.store || memory.place != state.place {
            return Ok(Testimony::Restored);
        }
        if let Some(machine) = memory.machine
            && !transaction.has_machine(&machine)?
        {
            return Ok(Testimony::Restored);
        }
        if memory.generation == 0 || memory.until <= now {
            return Ok(Testimony::Sound);
        }
        let knows = transaction.has_spend(memory.generation, &memory.mark)?;
        Ok(if knows { Testimony::Sound } else { Testimony::Restored })
    }

    /// Remembers a state and the machine's name durably, unless a later state of the same database is known under it.
    pub(super) fn remember(&self, state: &State, machine: [u8; 16]) -> Result<(), StoreError> {
        let lock = self.lock()?;
        let known = self.read()?;
        let same = known.as_ref().filter(|known| known.store == state.store && known.place == state.place);
        let is_later = |known: &Memory| known.generation > state.generation && known.machine.is_some();
        if same.is_some_and(is_later) {
            return Ok(());
        }
        let memory = Memory {
            machine: Some(machine),
            store: state.store,
            generation: state.generation,
            mark: state.mark,
            until: state.horizon,
            place: state.place.clone(),
        };
        replace_durably(&self.path, memory.to_text().as_bytes())?;
        drop(lock);
        Ok(())
    }

    /// The generation that is known, for those who want to remember only what is new.
    pub(super) fn generation(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.read()?.map(|memory| memory.generation))
    }

    /// The name by which this machine has joined, if it has.
    pub(super) fn machine(&self) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(self.read()?.and_then(|memory| memory.machine))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self) -> Result<Option<Memory>, StoreError> {
        match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            // A damaged file proves nothing; the caller decides as if there were none.
            text => Ok(Memory::from_text(&text.map_err(failing("read", &self.path))?)),
        }
    }

    fn lock(&self) -> Result<File, StoreError> {
        let path = self.path.with_extension("lock");
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                create_private(&path).or_else(|_| File::open(&path))
            }
            result => result,
        };
        let file = file.map_err(failing("open", &path))?;
        let locked = flock(&file, FlockOperation::LockExclusive);
        locked.map_err(|error| failing("lock", &path)(error.into()))?;
        Ok(file)
    }
}

impl Memory {
    fn to_text(&self) -> String {
        let hex = |bytes: [u8; 16]| format!("{:032x}", u128::from_be_bytes(bytes));
        format!(
            "{HEADLINE}\nmachine {}\nstore {}\ngeneration {}\nmark {}\nuntil {}\nplace {}\n",
            self.machine.map_or_else(String::new, hex),
            hex(self.store),
            self.generation,
            hex(self.mark),
            self.until,
            self.place
        )
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let id = |text: &str| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes);
        let machine = match field("sordino witness")? {
            "1" => None,
            "2" => Some(id(field("machine")?)?),
            _ => return None,
        };
        Some(Self {
            machine,
            store: id(field("store")?)?,
            generation: field("generation")?.parse().ok()?,
            mark: id(field("mark")?)?,
            until: field("until")?.parse().ok()?,
            place: field("place")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_survives_its_text_and_other_texts_are_none() {
        let memory = Memory {
            machine: Some([2; 16]),
            store: [1; 16],
            generation: 5,
            mark: [0xab; 16],
            until: 77,
            place: "7/1".to_owned(),
        };
        let text = memory.to_text();
        assert_eq!(Memory::from_text(&text), Some(memory.clone()));
        assert_eq!(Memory::from_text(&text.replace("witness 2", "witness 3")), None);
        assert_eq!(Memory::from_text(&text.replace("mark", "park")), None);
        for length in 0..text.len() - 5 {
            assert_eq!(Memory::from_text(&text[..length]), None, "{length}");
        }
        let first =
            text.replace("witness 2", "witness 1").replace(&format!("machine {}\n", "02".repeat(16)), "");
        assert_eq!(Memory::from_text(&first), Some(Memory { machine: None, ..memory }));
    }
}
