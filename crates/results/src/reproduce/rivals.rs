//! Points of methods beside the four papers', as printed elsewhere.

use std::sync::OnceLock;

use recipes::data::DataKind;
use serde::{Deserialize, Serialize};

use super::{Printed, PublishedPoint};

/// What takes the place of a dropped ReLU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Instead {
    /// The value itself, which costs nothing in private.
    Identity,
    /// A square or another polynomial: a private multiplication.
    Polynomial,
    /// Nothing: the channel goes with its ReLU.
    Nothing,
}

impl Instead {
    /// What became of them.
    pub fn words(self) -> &'static str {
        match self {
            Self::Identity => "the identity",
            Self::Polynomial => "polynomials",
            Self::Nothing => "gone with their channels",
        }
    }

    /// Whether what is counted is all that is paid for activations.
    pub fn is_free(self) -> bool {
        self != Self::Polynomial
    }
}

/// What a method reaches on one data set, in one table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rival {
    method: String,
    source: String,
    instead: Instead,
    data: DataKind,
    points: Vec<RivalPoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RivalPoint {
    network: String,
    relus: Printed,
    accuracy: f64,
    #[serde(default)]
    latency: Option<f64>,
    #[serde(default)]
    he_gc: Option<[f64; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RivalFile {
    rival: Vec<Rival>,
}

/// Their points on a data set.
pub(super) fn points(data: DataKind) -> impl Iterator<Item = PublishedPoint> {
    static RIVALS: OnceLock<Vec<Rival>> = OnceLock::new();
    let rivals = RIVALS.get_or_init(|| {
        let file: RivalFile = toml::from_str(include_str!("rivals.toml")).expect("the rivals are good TOML");
        file.rival
    });
    rivals.iter().filter(move |rival| rival.data == data).flat_map(|rival| {
        rival.points.iter().map(|point| PublishedPoint {
            paper: rival.method.clone(),
            place: rival.source.clone(),
            row: point.network.clone(),
            way: None,
            instead: rival.instead,
            printed_relus: point.relus.text().to_owned(),
            relus: point.relus.value(),
            accuracy: point.accuracy,
            latency: point.latency,
            he_gc: point.he_gc,
        })
    })
}
