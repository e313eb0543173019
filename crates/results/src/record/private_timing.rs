//! What private inference took, and in which setting: figures are compared only with others of the same.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One measurement of private inference (`sordino bench private`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrivateTiming {
    /// From the image to the logits, in seconds of wall time.
    pub online_s: f64,
    /// What is done before the image is there.
    pub offline_s: f64,
    /// Payload in both directions.
    pub online_bytes: u64,
    /// The same offline, on average over the inferences of one session.
    pub offline_bytes: u64,
    /// Of that, what the first image of a client takes; absent where it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_offline_bytes: Option<u64>,
    /// What each further image takes; absent where it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further_offline_bytes: Option<u64>,
    /// Changes of direction online.
    pub rounds: u64,
    /// Version of the protocol; absent where it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<u16>,
    /// Whether ReLUs were garbled circuits that round to nearest (`--relu exact`), where gates are the default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact_relus: bool,
    /// Whether the client learned the class alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub class_only: bool,
    /// The link between the parties.
    pub link: String,
    /// Threads of each party.
    pub threads: usize,
    /// The processor of both parties.
    pub processor: String,
    /// Seconds of computing by kind (`he`, `ot`, `gates`, `garble`, ...), both parties and phases together: the papers split HE and
    /// GC (DeepReShape Tables 6 and 7). Empty where it was not noted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work_s: BTreeMap<String, f64>,
    /// Of so many inferences it is the median.
    pub repeat: usize,
    /// Whose: the model's digest.
    pub digest: String,
    /// Whether its weights were random, where the trained ones were not kept. Widths of rings follow
    /// weights, and with them bytes and a little time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub random_weights: bool,
}

impl PrivateTiming {
    /// Where and how it was measured.
    pub fn setting(&self) -> Setting<'_> {
        Setting {
            protocol_version: self.comparable_version(),
            exact_relus: self.exact_relus,
            class_only: self.class_only,
            link: &self.link,
            threads: self.threads,
            processor: &self.processor,
        }
    }

    /// The first version that does the same for a further image: 5 sends once a client what 4 sent once a session, and
    /// differs in nothing else.
    pub(super) fn comparable_version(&self) -> Option<u16> {
        self.protocol_version.map(|version| if version == 5 { 4 } else { version })
    }

    /// Payload of one inference in all: for a further image of a session, where that was noted; on average otherwise.
    pub fn total_bytes(&self) -> u64 {
        self.online_bytes + self.further_offline_bytes.unwrap_or(self.offline_bytes)
    }

    /// Whether it takes the place of an earlier measurement: on the same processor, of the same link, threads and answer,
    /// whatever the protocol's version was.
    pub(super) fn repeats(&self, earlier: &Self) -> bool {
        let alike = (self.threads, self.exact_relus, self.class_only)
            == (earlier.threads, earlier.exact_relus, earlier.class_only);
        alike && self.link == earlier.link && self.processor == earlier.processor
    }
}

/// What two measurements must have in common to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The first version of the protocol that does the same for a further image, where it was noted.
    pub protocol_version: Option<u16>,
    /// Garbled ReLUs, where gates are the default.
    pub exact_relus: bool,
    /// The client learned the class alone.
    pub class_only: bool,
    /// The link between the parties.
    pub link: &'a str,
    /// Threads of each party.
    pub threads: usize,
    /// The processor of both parties.
    pub processor: &'a str,
}

impl Setting<'_> {
    /// `protocol 2`, or that no version was noted.
    pub fn protocol(&self) -> String {
        match self.protocol_version {
            None => "protocol not noted".to_owned(),
            Some(4) => "protocol 4 or 5".to_owned(),
            Some(version) => format!("protocol {version}"),
        }
    }
}

impl fmt::Display for Setting<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exact_relus, class_only, link, threads, processor, .. } = self;
        let exact = if *exact_relus { ", exact ReLUs" } else { "" };
        let class = if *class_only { ", class only" } else { "" };
        let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        write!(formatter, "{}{exact}{class}, {link}, {threads} a party, {processor}", self.protocol())
    }
}
