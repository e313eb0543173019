//! Named families of networks as functions to specs.
//!
//! A name is a family with options: `resnet18`, `resnet18:m=32`, `hrn-5x5x3x:m=16`, `wrn-22x8:final-relu=no`,
//! `sphynx:c=5,d=10,reduce=0+5`. Networks come in their CIFAR form (3x3 stem, no early pooling); `stem=imagenet`
//! asks for the other where a family has one.

mod cells;
mod darts;
pub mod genotype;
mod mobilenet;
mod name;
mod resnet;
mod signet;
mod sphynx;
mod vgg;
mod wide_resnet;

use std::path::Path;

use crate::shape::Shape;
use crate::spec::{Block, Draft, Layer, NetworkSpec, SpecError, Stage, Stem};

use genotype::{Genotype, GenotypeError};
use name::Name;
pub use sphynx::PUBLISHED as SPHYNX_PUBLISHED;

/// One line of the list of the zoo.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What to ask for.
    pub name: &'static str,
    /// The family it belongs to.
    pub family: &'static str,
    /// The image side the papers use with it.
    pub input: usize,
    /// What it is.
    pub summary: &'static str,
}

/// A family and the options its names take.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// How its names look.
    pub pattern: &'static str,
    /// The options, with their values.
    pub options: &'static [(&'static str, &'static str)],
}

/// The families.
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// The named networks, one or more per family.
pub fn catalog() -> &'static [Entry] {
    CATALOG
}

/// Whether a network is named by a TOML file and not by the zoo, whose names may end with a file of cells.
pub fn names_file(name: &str) -> bool {
    let is_toml = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    is_toml && !name.starts_with("sphynx:")
}

/// Builds a network by name for square images of the given side.
///
/// # Errors
/// When the name or an option is unknown (with the nearest known one), or the network does not fit the image.
pub fn build(name: &str, side: usize, classes: usize) -> Result<NetworkSpec, ZooError> {
    let mut name = Name::parse(name)?;
    let family = name.family.clone();
    let parts = match family.as_str() {
        "vgg11" | "vgg13" | "vgg16" | "vgg19" => vgg::build(&mut name)?,
        "mobilenetv1" => mobilenet::v1(&mut name)?,
        "mobilenetv2" => mobilenet::v2(&mut name)?,
        "signet" => signet::build(&mut name)?,
        "sphynx" => sphynx::build(&mut name)?,
        "darts" => darts::build(&mut name, &Genotype::darts())?,
        "pc-darts" => darts::build(&mut name, &Genotype::pc_darts())?,
        other => match (resnet::parse(other), wide_resnet::parse(other)) {
            (Some(base), _) => base.build(&mut name)?,
            (_, Some(base)) => base.build(&mut name)?,
            _ => return Err(unknown(other)),
        },
    };
    name.finish()?;
    let Parts { stem, stages, head } = parts;
    let draft = Draft { name: name.text, classes, input: Shape::image(side), stem, stages, head };
    Ok(NetworkSpec::new(draft)?)
}

fn unknown(name: &str) -> ZooError {
    if let Some(error) = ZooError::for_onnx(name) {
        return error;
    }
    let nearest = CATALOG
        .iter()
        .map(|entry| entry.name.split(':').next().unwrap_or(entry.name))
        .map(|known| (known, strsim::jaro_winkler(known, name)))
        .filter(|(_, similarity)| *similarity >= MIN_SIMILARITY)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    ZooError::UnknownNetwork { name: name.to_owned(), nearest: nearest.map(|(known, _)| known.to_owned()) }
}

/// Names less alike than this are no typing mistakes of one another.
const MIN_SIMILARITY: f64 = 0.75;

/// What a family's function makes: all of a draft but name, classes and input.
struct Parts {
    stem: Stem,
    stages: Vec<Stage>,
    head: Vec<Layer>,
}

impl Parts {
    /// With the usual head: the mean of each channel, then the classifier.
    fn pooled(stem: Vec<Layer>, stages: Vec<Vec<Block>>) -> Self {
        Self {
            stem: Stem { layers: stem, second: Vec::new() },
            stages: stages.into_iter().map(|blocks| Stage { blocks }).collect(),
            head: vec![Layer::GlobalAveragePool, Layer::Classifier],
        }
    }
}

/// Which form of the stem a network takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StemForm {
    /// Full resolution goes into the first stage.
    Cifar,
    /// The resolution is cut first.
    ImageNet,
}

impl StemForm {
    fn option(name: &mut Name) -> Result<Self, ZooError> {
        name.choice("stem", &[("cifar", Self::Cifar), ("imagenet", Self::ImageNet)])
    }
}

/// A network the zoo does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZooError {
    /// A network from elsewhere, which has weights and is not built.
    #[error(
        "{name} is an ONNX file, which is frozen as it is: freeze, inspect, verify and bench take it. Training takes a \
         network of the zoo or TOML; to train an imported one further, replace ReLU layers by identities in the \
         framework that it came from, and export it again"
    )]
    Onnx {
        /// The file.
        name: String,
    },
    /// No such family.
    #[error("there is no network called {name:?}; {}`sordino zoo` lists all", suggestion(nearest.as_deref()))]
    UnknownNetwork {
        /// What was asked for.
        name: String,
        /// The nearest known name, if one is near.
        nearest: Option<String>,
    },
    /// No such option.
    #[error("{family} has no option {option:?}; it takes {known}")]
    UnknownOption {
        /// The family.
        family: String,
        /// What was asked for.
        option: String,
        /// What there is.
        known: String,
    },
    /// A value that cannot be used.
    #[error("option {option}={value:?} of {family} is not usable; expected {expected}")]
    BadValue {
        /// The family.
        family: String,
        /// The option.
        option: String,
        /// What came.
        value: String,
        /// What can be used.
        expected: String,
    },
    /// The text is no name at all.
    #[error("{name:?} is no network name; write a family and its options, such as resnet18:m=32")]
    Malformed {
        /// What came.
        name: String,
    },
    /// Cells that cannot be used.
    #[error(transparent)]
    Cells(#[from] GenotypeError),
    /// The network does not fit the image.
    #[error("the network does not fit")]
    Shapes(#[from] SpecError),
}

impl ZooError {
    /// The refusal of what is called like an ONNX file, where a file of another kind or a name is expected.
    pub fn for_onnx(name: &str) -> Option<Self> {
        let extension = Path::new(name).extension()?;
        extension.eq_ignore_ascii_case("onnx").then(|| Self::Onnx { name: name.to_owned() })
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("the nearest name is {nearest:?}, and "))
}

const FAMILIES: &[Family] = &[
    Family {
        pattern: "resnet6 resnet9 resnet10 resnet18 resnet34 resnet20 resnet32 resnet44 resnet56",
        options: &[
            ("m", "channels of the first stage (BaseCh); 64, or 16 for resnet20 and its like"),
            ("factors", "channel growth from stage to stage (StageCh), such as 3x3x3x"),
            ("depths", "blocks per stage, such as 2+1+1+1"),
            ("stem", "cifar (default) or imagenet"),
        ],
    },
    Family {
        pattern: "hrn-AxBxCx",
        options: &[
            ("m", "channels of the first stage; 16"),
            ("base", "resnet18 (default) or resnet34: blocks per stage"),
            ("depths", "blocks per stage, such as 2+2+2+2"),
            ("stem", "cifar (default) or imagenet"),
        ],
    },
    Family {
        pattern: "hrn-depth-A-B-C-D",
        options: &[("m", "channels of the first stage; 16"), ("stem", "cifar (default) or imagenet")],
    },
    Family {
        pattern: "signet",
        options: &[
            ("signs", "comparisons per pixel in the blocks of each stage, 0 for a culled one; 0+16+80+240"),
            ("values", "channels that each sign decides for, its own included; 4"),
            ("stream", "channels of the residual stream, by stage; 16+64+256+512"),
            ("slopes", "yes (default: ReLU(x) + a x, with a learned for each channel) or no"),
            ("shortcut", "average (default) or strided: how the shortcut halves the map"),
            (
                "branches",
                "no (default), or yes: 1x1 convolutions and norms beside the 3x3, merged at freezing",
            ),
            ("depths", "blocks per stage; 2+2+2+2"),
            ("full", "stages with ReLUs on their sums too, such as 3+4; all are thinned by default"),
            ("stem-relu", "no (default) or yes"),
            ("stem-filter", "3 (default), 5 or 7"),
            ("stem-stride", "1 (default), 2 or 4"),
        ],
    },
    Family {
        pattern: "wrn-DEPTHxWIDTH",
        options: &[
            ("final-relu", "yes (default), or no: without the ReLU before the pooling, as SNL has it"),
            ("stem-channels", "channels of the stem; 16"),
        ],
    },
    Family {
        pattern: "vgg11 vgg13 vgg16 vgg19",
        options: &[
            ("c", "channels of the first stage; 64"),
            ("hidden", "size of the two hidden fully connected layers; 4096, 0 for none"),
            ("pool", "max (default), or average: linear, so that no maximum costs a circuit"),
        ],
    },
    Family { pattern: "mobilenetv1", options: &[("stem", "cifar (default) or imagenet")] },
    Family {
        pattern: "mobilenetv2",
        options: &[
            ("stem", "cifar (default) or imagenet"),
            ("clip", "no (default), or yes: ReLUs clipped at 6"),
        ],
    },
    Family {
        pattern: "sphynx",
        options: &[
            ("c", "initial channels; 5"),
            ("d", "number of cells; 10"),
            ("reduce", "which cells halve the resolution, counted from 0; the published ones, or d/3+2d/3"),
            ("balance", "relu (default: channels x4 at a reduce cell) or flop (x2)"),
            ("conv", "vanilla (default) or separable"),
            ("cells", "sphynx (default), darts, pc-darts, or a TOML file that a search wrote"),
            (
                "modules",
                "linear (default), or relu: a ReLU before every convolution on an edge, as in a teacher",
            ),
            ("values", "channels that each sign at the end of a cell decides for; 1: all have their own"),
            ("preprocess", "linear (default), or none: no 1x1 convolution where an input's channels fit"),
            ("stem", "cifar (default) or imagenet"),
        ],
    },
    Family {
        pattern: "darts pc-darts",
        options: &[
            ("c", "initial channels; 36"),
            ("d", "number of cells; 20"),
            ("reduce", "which cells halve the resolution, counted from 0; d/3+2d/3"),
            ("share", "no (default), or yes: one ReLU per node for all convolutions that read it"),
            ("balance", "flop (default: channels x2 at a reduce cell) or relu (x4)"),
            ("pre-relu", "yes (default), or no: no ReLU before the 1x1 convolutions of a cell's inputs"),
        ],
    },
];

macro_rules! catalog {
    ($($name:literal $family:literal $input:literal $summary:literal;)*) => {
        &[$(Entry { name: $name, family: $family, input: $input, summary: $summary },)*]
    };
}

const CATALOG: &[Entry] = catalog! {
    "resnet6" "resnet" 32 "one convolution per stage (DeepReDuce Table 9)";
    "resnet9" "resnet" 32 "resnet10 with one convolution in the first stage (DeepReDuce Table 7)";
    "resnet10" "resnet" 32 "one block per stage";
    "resnet18" "resnet" 32 "the baseline of DeepReDuce and SNL";
    "resnet34" "resnet" 32 "blocks 3, 4, 6, 3";
    "resnet20" "resnet" 32 "three thin stages of 3 blocks";
    "resnet32" "resnet" 32 "three thin stages of 5 blocks (DELPHI)";
    "resnet56" "resnet" 32 "three thin stages of 9 blocks";
    "resnet18:stem=imagenet" "resnet" 224 "for 224x224 images";
    "hrn-5x5x3x" "hybrenet" 32 "ReLU-equalized, for large budgets (DeepReShape)";
    "hrn-5x7x2x" "hybrenet" 32 "ReLU-equalized";
    "hrn-6x6x2x" "hybrenet" 32 "ReLU-equalized";
    "hrn-7x5x2x" "hybrenet" 32 "ReLU-equalized";
    "hrn-2x5x3x" "hybrenet" 32 "for small budgets: most ReLUs where they matter least";
    "hrn-4x6x3x:base=resnet34" "hybrenet" 32 "on the depths of resnet34";
    "hrn-2x6x3x:base=resnet34" "hybrenet" 32 "on the depths of resnet34, for small budgets";
    "hrn-depth-1-5-5-3" "hybrenet" 32 "printed as equalized through depth; it does not satisfy the inequality";
    "hrn-depth-1-5-7-2" "hybrenet" 32 "printed as equalized through depth; it does not satisfy the inequality";
    "hrn-depth-1-6-6-2" "hybrenet" 32 "printed as equalized through depth; it does not satisfy the inequality";
    "hrn-depth-1-7-5-2" "hybrenet" 32 "printed as equalized through depth; it does not satisfy the inequality";
    "signet" "signet" 32 "4 values by each sign, a wide residual stream, slopes";
    "signet:values=2" "signet" 32 "2 values by each sign";
    "signet:values=1" "signet" 32 "every value by its own sign: a wide stream and slopes alone";
    "signet:signs=0+8+40+120" "signet" 32 "4 values by each sign, for small budgets";
    "signet:signs=8+40+120,stream=64+128+256,stem-filter=5,stem-stride=2" "signet" 32 "lean: narrow streams, a strided stem";
    "signet:signs=0+4+20+60,values=8" "signet" 32 "8 values by each sign";
    "signet:signs=0+2+10+30,values=16" "signet" 32 "16 values by each sign";
    "wrn-22x8" "wide_resnet" 32 "pre-activation blocks; counts its final ReLU";
    "wrn-22x8:final-relu=no" "wide_resnet" 32 "as SNL has it";
    "wrn-16x8" "wide_resnet" 32 "two blocks per stage";
    "vgg11" "vgg" 32 "plain, with max pooling";
    "vgg16" "vgg" 32 "plain, with max pooling";
    "vgg16:pool=average" "vgg" 32 "plain, with average pooling: no maximum to compute in private";
    "mobilenetv1" "mobilenet" 32 "depthwise separable convolutions";
    "mobilenetv2" "mobilenet" 32 "inverted residuals";
    "mobilenetv1:stem=imagenet" "mobilenet" 224 "for 224x224 images";
    "mobilenetv2:stem=imagenet" "mobilenet" 224 "for 224x224 images";
    "sphynx:c=5,d=5" "sphynx" 32 "25.6K ReLUs";
    "sphynx:c=5,d=10" "sphynx" 32 "51.2K ReLUs";
    "sphynx:c=10,d=10" "sphynx" 32 "102.4K ReLUs";
    "sphynx:c=5,d=5,values=2" "sphynx" 32 "25.6K comparisons for 51.2K values";
    "sphynx:c=20,d=10,stem=imagenet" "sphynx" 224 "345K ReLUs at 224x224";
    "darts" "darts" 32 "the cells of DARTS, ReLUs everywhere";
    "pc-darts" "darts" 32 "the cells of PC-DARTS, ReLUs everywhere";
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_named_network_can_be_built() {
        for entry in catalog() {
            build(entry.name, entry.input, 100).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        }
    }

    #[test]
    fn a_typo_gets_the_nearest_name() {
        let error = build("resnet81", 32, 10).unwrap_err().to_string();
        assert!(error.contains("\"resnet18\""), "{error}");
        let error = build("mobilnetv2", 32, 10).unwrap_err().to_string();
        assert!(error.contains("\"mobilenetv2\""), "{error}");
        let error = build("sphinx:c=5", 32, 10).unwrap_err().to_string();
        assert!(error.contains("\"sphynx\""), "{error}");
        let error = build("mine.onnx", 32, 10).unwrap_err().to_string();
        assert!(
            error.starts_with("mine.onnx is an ONNX file") && error.contains("export it again"),
            "{error}"
        );
        let error = build("foo", 32, 10).unwrap_err().to_string();
        assert_eq!(error, "there is no network called \"foo\"; `sordino zoo` lists all");
    }

    #[test]
    fn a_wrong_option_says_what_there_is() {
        let error = build("resnet18:n=3", 32, 10).unwrap_err().to_string();
        assert_eq!(error, "resnet18 has no option \"n\"; it takes m, factors, depths, stem");
        let error = build("resnet18:m=lots", 32, 10).unwrap_err().to_string();
        assert!(error.contains("m=\"lots\"") && error.contains("number"), "{error}");
        for bad in
            ["", ":", "resnet18:", "resnet18:m", "resnet18:=3", "resnet18:m=3:m=4", "hrn-5x5x", "wrn-8x22"]
        {
            assert!(build(bad, 32, 10).is_err(), "{bad}");
        }
        assert!(build("resnet18:m=3,m=4", 32, 10).is_err());
    }

    #[test]
    fn the_list_has_every_option_of_every_family() {
        for Family { pattern, options } in families() {
            for pattern in pattern.split(' ') {
                let name = match pattern {
                    "hrn-AxBxCx" => "hrn-5x5x3x",
                    "hrn-depth-A-B-C-D" => "hrn-depth-1-5-5-3",
                    "wrn-DEPTHxWIDTH" => "wrn-22x8",
                    name => name,
                };
                let ZooError::UnknownOption { known, .. } =
                    build(&format!("{name}:other=1"), 32, 10).unwrap_err()
                else {
                    panic!("{name} has an option that is not there")
                };
                let known: BTreeSet<&str> = known.split(", ").collect();
                let listed: BTreeSet<&str> = options.iter().map(|(option, _)| *option).collect();
                assert_eq!(known, listed, "{name}");
            }
        }
    }

    #[test]
    fn a_vgg_pools_by_maxima_or_averages() {
        let cost = |name: &str| crate::cost::Cost::of(&build(name, 32, 100).unwrap());
        let (largest, average) = (cost("vgg16"), cost("vgg16:pool=average"));
        assert_eq!((largest.relus, largest.parameters), (average.relus, average.parameters));
        assert!(largest.maxpools > 0);
        assert_eq!(average.maxpools, 0);
        let error = build("vgg16:pool=median", 32, 10).unwrap_err().to_string();
        assert!(error.contains("expected max or average"), "{error}");
    }

    #[test]
    fn huge_numbers_are_refused_without_being_tried() {
        for bad in [
            "resnet18:m=99999999999",
            "resnet18:depths=99999999+1+1+1",
            "sphynx:d=999999999",
            "wrn-4000000000x8",
        ] {
            assert!(build(bad, 32, 10).is_err(), "{bad}");
        }
        let everywhere: Vec<_> = (0..100).map(|cell| cell.to_string()).collect();
        for family in ["darts", "pc-darts", "sphynx"] {
            let name = format!("{family}:c=1000,d=100,reduce={}", everywhere.join("+"));
            assert!(matches!(build(&name, 32, 10), Err(ZooError::Shapes(_))), "{family}");
            let late = build(&format!("{family}:d=4,reduce=1+4"), 32, 10).unwrap_err().to_string();
            assert!(late.contains("cells from 0 to 3"), "{late}");
        }
        assert!(build("resnet18", 100_000, 10).is_err());
        assert!(build("resnet18", 32, 0).is_err());
        assert!(build("vgg16", 16, 10).is_err());
    }
}
