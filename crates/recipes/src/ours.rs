//! Recipes that come with the product and that others begin with: files of the folder `recipes/`, linked to from here.

/// The texts of [`text`] by their names.
const OURS: [(&str, &str); 13] = {
    macro_rules! files {
        ($($name:literal)*) => { [$(($name, include_str!(concat!("ours/", $name, ".toml")))),*] };
    }
    files! {
        "deepreduce-28.7k"
        "deepreduce-resnet18-cifar100"
        "deepreshape-hybrenet-cifar100"
        "hybrenet-163k-cifar100"
        "l1-pruning-resnet18-400k"
        "senet-resnet18-50k"
        "shared-signs-26k-cifar100"
        "snl-baseline-cifar100"
        "snl-resnet18-25k"
        "snl-resnet18-50k"
        "sphynx-51k-cifar100"
        "sphynx-kd-cifar100"
        "sphynx-search-cifar100"
    }
};

/// The text of a recipe, where we have one of this name.
pub fn text(name: &str) -> Option<&'static str> {
    OURS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;

    #[test]
    fn what_others_begin_with_can_be_read() {
        for (name, text) in OURS {
            Recipe::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(text("nobody's").is_none());
    }
}
