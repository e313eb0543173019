//! Files that verbs write: one that exists stays as it is, unless it may be replaced.

use std::fs::{canonicalize, symlink_metadata};
use std::path::Path;

use anyhow::ensure;

/// Refuses an output that exists, unless it may be replaced.
pub(super) fn expect_new(output: &Path, may_replace: bool) -> anyhow::Result<()> {
    ensure!(
        may_replace || symlink_metadata(output).is_err(),
        "{} exists; name another, or replace it with --force",
        output.display()
    );
    Ok(())
}

/// Refuses to write over what is read, under whatever names.
pub(super) fn expect_apart(input: &Path, output: &Path) -> anyhow::Result<()> {
    let is_same =
        canonicalize(input).is_ok_and(|input| canonicalize(output).is_ok_and(|output| input == output));
    ensure!(!is_same, "{} is what is read; name another file for the result", output.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_replaced_only_where_it_may_be_and_what_is_read_never() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new, link) =
            (folder.path().join("old"), folder.path().join("new"), folder.path().join("link"));
        std::fs::write(&old, "old").unwrap();
        std::os::unix::fs::symlink("old", &link).unwrap();
        expect_new(&new, false).unwrap();
        expect_new(&old, true).unwrap();
        assert!(expect_new(&old, false).unwrap_err().to_string().contains("--force"));
        expect_apart(&old, &new).unwrap();
        assert!(expect_apart(&old, &link).unwrap_err().to_string().contains("what is read"));
        // A link to nothing is there, too.
        std::fs::remove_file(&old).unwrap();
        assert!(expect_new(&link, false).is_err());
    }
}
