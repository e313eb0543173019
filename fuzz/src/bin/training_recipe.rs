//! A recipe in TOML: refused, or printed and read back as itself; its network, where it is one of the zoo, is refused or built.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use network::shape::Shape;
use recipes::recipe::Recipe;

fuzz_target!(|text: &str| {
    let Ok(recipe) = Recipe::from_toml(text) else { return };
    let again = Recipe::from_toml(&recipe.to_toml()).expect("what was printed can be read");
    assert_eq!(again, recipe);
    let is_file = Path::new(&recipe.network.name).extension().is_some_and(|extension| extension == "toml");
    if !is_file {
        let _ = recipe.network.build(Shape::image(32), 10);
    }
});
