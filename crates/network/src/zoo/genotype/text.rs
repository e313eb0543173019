//! Genotypes as text: TOML files for people, one word for names and records.
//!
//! ```text
//! normal = [[{ op = "skip", from = 0 }, { op = "conv3", from = 1 }], ...]      a file
//! skip@0+conv3@1.conv5@2+skip@0/conv3@0+...                                    a word: nodes, normal / reduce
//! ```

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::{CellEdge, CellKind, CellOperation, CellWiring, Genotype, GenotypeError, GenotypeFault};

/// The longest file of cells.
const MAX_FILE_BYTES: u64 = 1 << 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an edge")]
struct EdgeText {
    op: String,
    from: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenotypeText {
    normal: Vec<Vec<EdgeText>>,
    reduce: Vec<Vec<EdgeText>>,
}

impl Genotype {
    /// Reads cells from TOML text.
    ///
    /// # Errors
    /// When the text is no TOML, or the wiring cannot be used.
    pub fn from_toml(text: &str) -> Result<Self, GenotypeError> {
        let cells: Result<GenotypeText, _> = toml::from_str(text);
        let text = cells.map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| format!(" in line {}", before.matches('\n').count() + 1));
            let reason = format!("{}{}", error.message(), line.unwrap_or_default());
            GenotypeError::Syntax { reason }
        })?;
        Self::from_texts(&text.normal, &text.reduce)
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// As for [`Self::from_toml`], and when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, GenotypeError> {
        let unreadable = |reason: String| GenotypeError::Unreadable { path: path.to_owned(), reason };
        let mut text = String::new();
        // The length a file claims is not trusted: a device claims none and never ends.
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(unreadable(format!("it has more than {MAX_FILE_BYTES} bytes")));
        }
        let in_file = |fault| GenotypeError::File { path: path.to_owned(), fault: Box::new(fault) };
        Self::from_toml(&text).map_err(in_file)
    }

    /// The cells as TOML that [`Self::from_toml`] reads back, one node a line.
    pub fn to_toml(&self) -> String {
        let edge =
            |edge: &CellEdge| format!("{{ op = \"{}\", from = {} }}", edge.operation.word(), edge.from);
        let mut text = String::new();
        for kind in CellKind::BOTH {
            text.push_str(&format!("{} = [\n", kind.word()));
            for [first, second] in self.wiring(kind) {
                text.push_str(&format!("  [{}, {}],\n", edge(first), edge(second)));
            }
            text.push_str("]\n");
        }
        text
    }

    /// The cells as one word, for names of networks.
    pub fn to_word(&self) -> String {
        let edge = |edge: &CellEdge| format!("{}@{}", edge.operation.word(), edge.from);
        let node = |node: &[CellEdge; 2]| node.iter().map(edge).collect::<Vec<_>>().join("+");
        let cell = |kind| self.wiring(kind).iter().map(node).collect::<Vec<_>>().join(".");
        CellKind::BOTH.map(cell).join("/")
    }

    /// Reads what [`Self::to_word`] writes.
    ///
    /// # Errors
    /// When the word is none, or the wiring cannot be used.
    pub fn from_word(word: &str) -> Result<Self, GenotypeError> {
        let malformed =
            |part: &str| GenotypeError::Syntax { reason: format!("{part:?} is no edge such as conv3@0") };
        let (normal, reduce) = word.split_once('/').ok_or_else(|| malformed(word))?;
        let edge = |text: &str| {
            let (op, from) = text.split_once('@').ok_or_else(|| malformed(text))?;
            let from = from.parse().map_err(|_| malformed(text))?;
            Ok(EdgeText { op: op.to_owned(), from })
        };
        let cell = |text: &str| -> Result<Vec<Vec<EdgeText>>, GenotypeError> {
            text.split('.').map(|node| node.split('+').map(edge).collect()).collect()
        };
        Self::from_texts(&cell(normal)?, &cell(reduce)?)
    }

    fn from_texts(normal: &[Vec<EdgeText>], reduce: &[Vec<EdgeText>]) -> Result<Self, GenotypeError> {
        let cell = |kind, nodes: &[Vec<EdgeText>]| {
            wiring(nodes).map_err(|fault| GenotypeError::Wiring { kind, fault })
        };
        Self::new(cell(CellKind::Normal, normal)?, cell(CellKind::Reduce, reduce)?)
    }
}

fn wiring(nodes: &[Vec<EdgeText>]) -> Result<CellWiring, GenotypeFault> {
    let edge = |node: usize, text: &EdgeText| {
        let operation = CellOperation::SEARCHED.into_iter().find(|operation| operation.word() == text.op);
        let operation = operation.ok_or_else(|| GenotypeFault::Operation { node, word: text.op.clone() })?;
        let from = usize::try_from(text.from).map_err(|_| GenotypeFault::Below { node, from: text.from })?;
        Ok(CellEdge { operation, from })
    };
    let mut wiring = CellWiring::new();
    for (node, edges) in (2..).zip(nodes) {
        let [first, second] = &edges[..] else {
            return Err(GenotypeFault::Edges { node, came: edges.len() });
        };
        wiring.push([edge(node, first)?, edge(node, second)?]);
    }
    Ok(wiring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let cells = Genotype::sphynx();
        assert_eq!(Genotype::from_toml(&cells.to_toml()), Ok(cells.clone()));
        assert_eq!(Genotype::from_word(&cells.to_word()), Ok(cells.clone()));
        assert!(cells.to_word().starts_with("skip@0+skip@1.skip@2+dilated5@0."), "{}", cells.to_word());
        assert!(
            cells.to_toml().contains("  [{ op = \"conv5\", from = 2 }, { op = \"dilated3\", from = 0 }],")
        );
    }

    #[test]
    fn wrong_cells_are_refused_with_what_was_expected() {
        let text = Genotype::sphynx().to_toml();
        let refused = |from: &str, to: &str| {
            assert!(text.contains(from));
            Genotype::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let error = refused("op = \"skip\", from = 2", "op = \"skip\", from = 4");
        assert!(error.contains("normal cell: node 3 reads node 4") && error.contains("0 to 2"), "{error}");
        let error = refused("op = \"skip\", from = 2", "op = \"skip\", from = -1");
        assert!(error.contains("normal cell: node 3 reads node -1; expected 0 to 2"), "{error}");
        let error = refused("\"conv5\"", "\"cnv5\"");
        assert!(error.contains("\"cnv5\"") && error.contains("did you mean conv5?"), "{error}");
        let error = refused("\"conv5\"", "\"none\"");
        assert!(error.contains("average, skip, conv3, conv5, dilated3 or dilated5"), "{error}");
        let error = refused(", { op = \"skip\", from = 1 }", "");
        assert!(error.contains("node 2 has 1 edges; expected 2"), "{error}");
        let error = refused("from = 2", "form = 2");
        assert!(error.contains("form") && error.contains("expected"), "{error}");
        let error = refused("{ op = \"skip\", from = 2 }", "\"skip@2\"");
        assert!(error.contains("expected an edge in line 3") && error.contains("from = 0 }"), "{error}");
        let error = Genotype::from_toml("normal = []").unwrap_err().to_string();
        assert!(error.contains("reduce"), "{error}");
        for word in ["", "/", "skip@0/skip@1", "skip@0+skip@x/skip@0+skip@1", "a@0+b@1/a@0+b@1"] {
            assert!(Genotype::from_word(word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_file_of_wrong_cells_is_named() {
        let folder = std::env::temp_dir().join(format!("sordino-cells-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("cells.toml");
        std::fs::write(&file, Genotype::sphynx().to_toml().replacen("conv5", "conv7", 1)).unwrap();
        let error = Genotype::from_file(&file).unwrap_err().to_string();
        assert!(error.contains("cells.toml: the normal cell: node"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Genotype::from_file(Path::new("/nowhere/cells.toml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/cells.toml") && error.contains("optimize sphynx"), "{error}");
    }
}
