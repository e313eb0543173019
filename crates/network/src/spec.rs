//! A network as plain data: stem, stages, head; blocks made of layers.
//!
//! A [`Draft`] is what a person edits in TOML and what the zoo and the transforms build. A [`NetworkSpec`] is a
//! draft that was walked once and whose shapes fit; behind this border no reader has to doubt them. The words are
//! those of DeepReDuce section 2.1: a network is stages, a stage is blocks at one resolution, a block is layers.

mod error;
mod layer;
mod signs;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::shape::Shape;
use crate::walk::Walk;

pub use error::{SpecError, SpecFault, SpecFileError};
pub use layer::{
    Branches, Conv, Edge, FactorizedReduce, FullyConnected, Group, Groups, Join, Layer, Pool, Split,
};
pub use signs::{Grouping, MAX_SLOPE, MAX_VALUES_PER_SIGN, SLOPE_UNITS, SharedSigns, public_slope};
pub(crate) use signs::{check_group_size, check_groups};

/// The longest TOML text that is read as a spec.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A network description that may or may not make sense yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// What to call it in reports.
    pub name: String,
    /// How many classes it tells apart.
    pub classes: usize,
    /// The image it takes.
    pub input: Shape,
    /// What comes before the first stage.
    #[serde(default)]
    pub stem: Stem,
    /// The stages, numbered from 1 in every report.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Pooling and classifier after the last stage.
    #[serde(default)]
    pub head: Vec<Layer>,
}

/// What comes before the first stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stem {
    /// The layers that take the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
    /// A second part, for cell networks whose first cell reads both halves of the stem (Sphynx appendix H).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub second: Vec<Layer>,
}

/// A run of blocks at one spatial resolution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// In order.
    #[serde(default)]
    pub blocks: Vec<Block>,
}

/// One repeated unit inside a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Layers one after the other.
    Plain(Vec<Layer>),
    /// A body beside a shortcut, added.
    Residual(Residual),
    /// A small graph over the outputs of the two blocks before it.
    Cell(Cell),
}

/// `after_sum(body(before(x)) + shortcut(before(x)))`; an empty shortcut is the identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// Shared by body and shortcut: the pre-activation of WideResNets where the shape changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Layer>,
    /// The main path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<Layer>,
    /// The other path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcut: Vec<Layer>,
    /// Applied to the sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_sum: Vec<Layer>,
}

/// A cell found by search (Sphynx section 4.1, DARTS): nodes are sums of edges, the output a concatenation.
///
/// Node 0 is the output of the block before the previous one, node 1 that of the previous one, both after their
/// preprocessing; `nodes` are numbered from 2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Applied to the older input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<Layer>,
    /// Applied to the newer input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub newer: Vec<Layer>,
    /// Each node adds up its edges.
    pub nodes: Vec<Vec<Edge>>,
    /// The nodes whose channels are joined.
    pub concat: Vec<usize>,
    /// Applied to the joined channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post: Vec<Layer>,
}

/// A network whose shapes fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Draft", into = "Draft")]
pub struct NetworkSpec {
    draft: Draft,
    walk: Walk,
}

impl NetworkSpec {
    /// Checks a draft by walking it.
    ///
    /// # Errors
    /// At the first place where shapes do not fit, with the reason.
    pub fn new(draft: Draft) -> Result<Self, SpecError> {
        let walk = Walk::new(&draft)?;
        Ok(Self { draft, walk })
    }

    /// The description.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// The description, to be changed and checked again.
    pub fn into_draft(self) -> Draft {
        self.draft
    }

    /// Every elementary operation in order.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// What to call it.
    pub fn name(&self) -> &str {
        &self.draft.name
    }

    /// How many stages there are.
    pub fn stage_count(&self) -> usize {
        self.draft.stages.len()
    }

    /// Reads a spec from TOML text.
    ///
    /// # Errors
    /// When the text is no TOML, no spec, or a spec whose shapes do not fit.
    pub fn from_toml(text: &str) -> Result<Self, SpecFileError> {
        let draft: Draft = toml::from_str(text).map_err(|source| SpecFileError::Syntax(Box::new(source)))?;
        Ok(Self::new(draft)?)
    }

    /// Writes the spec as TOML that [`Self::from_toml`] reads back.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.draft).expect("a draft holds only names, numbers, lists and tables")
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// When the file cannot be read, is too large to be a spec, or holds none.
    pub fn from_file(path: &Path) -> Result<Self, SpecFileError> {
        let unreadable = |source| SpecFileError::Unreadable { path: path.into(), source };
        // The length a file claims is not trusted: a device claims none and never ends.
        let mut text = String::new();
        let mut file = File::open(path).map_err(unreadable)?.take(MAX_FILE_BYTES + 1);
        file.read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(SpecFileError::TooLarge { path: path.into(), limit: MAX_FILE_BYTES });
        }
        Self::from_toml(&text)
    }
}

impl PartialEq for NetworkSpec {
    fn eq(&self, other: &Self) -> bool {
        self.draft == other.draft
    }
}

impl TryFrom<Draft> for NetworkSpec {
    type Error = SpecError;

    fn try_from(draft: Draft) -> Result<Self, SpecError> {
        Self::new(draft)
    }
}

impl From<NetworkSpec> for Draft {
    fn from(spec: NetworkSpec) -> Self {
        spec.draft
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    const TINY: &str = r#"
        name = "tiny"
        classes = 10
        input = { channels = 3, height = 8, width = 8 }
        head = ["global_average_pool", "classifier"]
        [stem]
        layers = [{ conv = { out = 4, filter = 3 } }, "batch_norm", "relu"]
        [[stages]]
        [[stages.blocks]]
        [stages.blocks.residual]
        body = [{ conv = { out = 4, filter = 3 } }, "relu", { conv = { out = 4, filter = 3 } }]
        after_sum = ["relu"]
    "#;

    #[test]
    fn a_person_can_write_a_spec() {
        let spec = NetworkSpec::from_toml(TINY).unwrap();
        assert_eq!(spec.stage_count(), 1);
        assert_eq!(spec.walk().sites().len(), 3);
    }

    #[test]
    fn printing_and_parsing_gives_the_same_spec() {
        for entry in zoo::catalog() {
            let spec = zoo::build(entry.name, entry.input, 10).unwrap();
            assert_eq!(NetworkSpec::from_toml(&spec.to_toml()).unwrap(), spec, "{}", entry.name);
        }
    }

    fn refusal(from: &str, to: &str) -> String {
        assert!(TINY.contains(from));
        chain(&NetworkSpec::from_toml(&TINY.replace(from, to)).unwrap_err())
    }

    /// An error with all its causes.
    fn chain(error: &dyn std::error::Error) -> String {
        let causes = error.source().map(|source| format!(": {}", chain(source)));
        error.to_string() + &causes.unwrap_or_default()
    }

    /// What to replace in [`TINY`], by what, and what the refusal must say.
    const WRONG: &[(&str, &str, &str)] = &[
        (
            "relu\", { conv = { out = 4",
            "relu\", { conv = { out = 5",
            "stage 1, block 1: the branches end at 5x8x8",
        ),
        ("out = 4, filter = 3 } }, \"batch", "out = 0, filter = 3 } }, \"batch", "stem, layer 1 (conv)"),
        (
            "out = 4, filter = 3 } }, \"batch",
            "out = 4, filter = 11, padding = 0 } }, \"batch",
            "spans 11 pixels",
        ),
        (
            "filter = 3 } }, \"batch",
            "filter = 4294967296 } }, \"batch",
            "stem, layer 1 (conv): the filter is 4294967296; expected a number from 1 to 4096",
        ),
        ("filter = 3 } }, \"batch", "filter = 4095, dilation = 4095 } }, \"batch", "the padding is 8382465"),
        ("filter = 3 } }, \"batch", "filter = 3, dilation = 4097 } }, \"batch", "the dilation is 4097"),
        ("filter = 3 } }, \"batch", "filter = 3, padding = 4097 } }, \"batch", "the padding is 4097"),
        (
            "filter = 3 } }, \"batch",
            "filter = 3, stride = 9223372036854775807 } }, \"batch",
            "the stride is 9223372036854775807",
        ),
        ("\"batch_norm\"", "{ max_pool = { window = 4294967296, stride = 1 } }", "the window is 4294967296"),
        ("\"batch_norm\"", "{ average_pool = { window = 2, stride = 4097 } }", "the stride is 4097"),
        ("\"tiny\"", "\"\\u001b[31mtiny\"", "name: the name holds a control character"),
        ("filter = 3 } }, \"batch", "kernel = 3 } }, \"batch", "expected one of `out`, `filter`"),
        ("height = 8", "height = 99999999999", "99999999999"),
        ("classes = 10", "classes = nan", "nan"),
        ("classes = 10", "classes = -1", "-1"),
        ("\"classifier\"", "\"relu\"", "head"),
        ("\"batch_norm\"", "\"bach_norm\"", "bach_norm"),
        ("after_sum", "after_some", "after_some"),
    ];

    #[test]
    fn a_wrong_spec_is_refused_with_the_place_and_the_reason() {
        for (from, to, expected) in WRONG {
            let message = refusal(from, to);
            assert!(message.contains(expected), "{to}: {message}");
        }
    }

    #[test]
    fn a_cycle_cannot_be_written() {
        let cell = TINY.split("[stages.blocks.residual]").next().unwrap().to_owned()
            + "[stages.blocks.cell]\nnodes = [[{ from = 2 }]]\nconcat = [2]\n";
        let message = NetworkSpec::from_toml(&cell).unwrap_err().to_string();
        assert!(message.contains("node 2") && message.contains("before it"), "{message}");
    }

    #[test]
    fn what_is_wrong_is_said_once() {
        let chained = refusal("\"batch_norm\"", "\"bach_norm\"");
        assert_eq!(chained.matches("bach_norm").count(), 2, "the line and the message of TOML: {chained}");
    }

    #[test]
    #[cfg(unix)]
    fn a_file_without_an_end_is_refused() {
        let link = std::env::temp_dir().join(format!("sordino-endless-{}.toml", std::process::id()));
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let result = NetworkSpec::from_file(&link);
        std::fs::remove_file(&link).unwrap();
        assert!(matches!(result, Err(SpecFileError::TooLarge { .. })));
    }

    #[test]
    fn a_spec_cut_anywhere_is_refused_or_read() {
        let text = zoo::build("sphynx:c=5,d=5", 32, 10).unwrap().to_toml();
        for end in (0..text.len()).step_by(50) {
            if let Ok(spec) = NetworkSpec::from_toml(&text[..end]) {
                assert_eq!(NetworkSpec::from_toml(&spec.to_toml()).unwrap(), spec);
            }
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let mut layer = "\"relu\"".to_owned();
        for _ in 0..60 {
            layer = format!("{{ branches = {{ join = \"sum\", branches = [[{layer}]] }} }}");
        }
        let text = TINY.replace("\"batch_norm\"", &layer);
        assert!(NetworkSpec::from_toml(&text).is_err());
    }
}
