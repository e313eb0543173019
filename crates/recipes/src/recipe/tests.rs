use super::*;
use network::cost::Cost;
use network::shape::Shape;

const SMALL: &str =
    "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 3\nbatch = 8\n";

fn refusal(text: &str) -> String {
    Recipe::from_toml(text).unwrap_err().to_string()
}

#[test]
fn a_short_recipe_takes_the_defaults() {
    let recipe = Recipe::from_toml(SMALL).unwrap();
    assert_eq!(recipe.seed, 1);
    assert_eq!(recipe.data.train_on, TrainOn::All);
    assert_eq!(recipe.training.optimizer, OptimizerChoice::default());
    assert_eq!(recipe.training.checkpoint_every, 10);
}

#[test]
fn a_recipe_written_is_the_recipe_read() {
    let text = format!(
        "{SMALL}[training.loss.distillation]\nkind = \"dkd\"\nbeta = 2.0\n[teacher]\ncheckpoint = \"t\"\n"
    );
    let recipe = Recipe::from_toml(&text).unwrap();
    assert_eq!(Recipe::from_toml(&recipe.to_toml()).unwrap(), recipe);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let text = refusal(&SMALL.replace("epochs", "epoch"));
    assert!(text.contains("unknown field `epoch`") && text.contains("did you mean `epochs`?"), "{text}");
    let text = refusal(&format!("{SMALL}[training.optimizer]\nkind = \"sgd\"\nmomentun = 0.9\n"));
    assert!(text.contains("did you mean `momentum`?"), "{text}");
    let text = refusal(&SMALL.replace("cifar100", "cifar-100"));
    assert!(text.contains("did you mean `cifar100`?"), "{text}");
    let text = refusal(&format!("{SMALL}[zzz]\n"));
    assert!(text.contains("unknown field `zzz`") && !text.contains("did you mean"), "{text}");
}

#[test]
fn another_number_of_epochs_moves_what_hangs_on_it() {
    let text = format!(
        "{}[training.schedule]\nkind = \"step\"\nmilestones = [100, 150]\nwarm_up_epochs = 10.0\n\
         [training.loss.distillation]\nkind = \"dkd\"\n[teacher]\ncheckpoint = \"t\"\n",
        SMALL.replace("epochs = 3", "epochs = 200")
    );
    let mut training = Recipe::from_toml(&text).unwrap().training;
    training.set_epochs(20);
    assert_eq!((training.epochs, training.schedule.milestones.as_slice()), (20, [10, 15].as_slice()));
    assert_eq!(training.schedule.warm_up_epochs, 5.0);
    let Some(Distillation::Dkd { warm_up_epochs, .. }) = training.loss.distillation else { panic!() };
    assert_eq!(warm_up_epochs, 2.0);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (addition, expected) in [
        ("[training.schedule]\nlearning_rate = 0.0\n", "learning_rate is 0"),
        ("[training.schedule]\nkind = \"step\"\n", "milestones"),
        ("[training.schedule]\nwarm_up_epochs = 3.0\n", "warm_up_epochs is 3"),
        ("[training.augmentation]\nmixup = 1.0\ncutmix = 1.0\n", "exclude each other"),
        ("[training.loss.distillation]\nkind = \"kd\"\n", "needs a teacher"),
        ("[teacher]\ncheckpoint = \"x\"\n", "not used"),
        ("[data.synthetic]\nside = 16\n", "belongs to set"),
        ("[training.loss]\nlabel_smoothing = 2.0\n", "label_smoothing is 2"),
        ("[training.optimizer]\nkind = \"sgd\"\nmomentum = 1.0\n", "momentum is 1; expected 0 to 0.999999"),
        ("[training.optimizer]\nkind = \"sgd\"\nweight_decay = -1e-4\n", "weight_decay is -0.0001"),
        ("[training.optimizer]\nkind = \"adam\"\nbeta2 = 1.5\n", "beta2 is 1.5"),
        ("[training.schedule]\nfloor = 0.2\n", "floor is 0.2; expected 0 to the learning rate"),
        ("[training.augmentation]\ncutout = 100000\n", "cutout is 100000"),
        ("[training.augmentation]\ncrop_padding = 100000\n", "crop_padding is 100000"),
        (
            "[training.loss.distillation]\nkind = \"dkd\"\nbeta = -1.0\n[teacher]\ncheckpoint = \"t\"\n",
            "beta is -1",
        ),
        (
            "[training.loss.distillation]\nkind = \"logit-mse\"\nweight = -1.0\n[teacher]\ncheckpoint = \"t\"\n",
            "weight is -1",
        ),
        ("[optimize]\nmethod = \"deepreduce\"\nprobe_epochs = 0\n", "probe_epochs is 0; expected 1 or more"),
        (
            "[optimize]\nmethod = \"sphynx\"\nbudget = 25600\n[optimize.location_search]\ngrid_epochs = 0\n",
            "grid_epochs is 0",
        ),
    ] {
        let text = refusal(&format!("{SMALL}{addition}"));
        assert!(text.contains(expected), "{addition}: {text}");
    }
    assert!(refusal(&SMALL.replace("epochs = 3", "epochs = 0")).contains("training.epochs is 0"));
    assert!(refusal(&SMALL.replace("batch = 8", "batch = 1")).contains("training.batch is 1"));
}

#[test]
fn numbers_that_a_checkpoint_cannot_hold_are_refused() {
    for (addition, expected) in [
        ("[training.schedule]\nfloor = nan\n", "training.schedule.floor is NaN or infinite"),
        (
            "[training.optimizer]\nkind = \"sgd\"\nmomentum = -inf\n",
            "training.optimizer.momentum is NaN or infinite",
        ),
    ] {
        let text = refusal(&format!("{SMALL}{addition}"));
        assert!(text.contains(expected), "{addition}: {text}");
    }
}

#[test]
fn the_largest_seed_is_written_and_read() {
    let recipe = Recipe { seed: u64::MAX, ..Recipe::from_toml(SMALL).unwrap() };
    assert_eq!(Recipe::from_toml(&recipe.to_toml()).unwrap(), recipe);
}

#[test]
fn a_missing_file_is_named() {
    let error = Recipe::from_file(Path::new("/nowhere/recipe.toml")).unwrap_err();
    let expected =
        "cannot read the recipe /nowhere/recipe.toml; expected a TOML file, such as recipes/quickstart.toml";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_network_of_a_recipe_has_its_relus() {
    let recipe =
        SMALL.replace("\"resnet18\"", "\"hrn-2x5x3x:m=16\"\ncull = [1]\nthin = [2, 3, 4]\nreuse = 4");
    let recipe = Recipe::from_toml(&recipe).unwrap();
    let spec = recipe.network.build(Shape::image(32), 100).unwrap();
    assert_eq!(Cost::of(&spec).relus, 13_056);
    assert!(
        recipe
            .network
            .build(Shape::new(1, 32, 32), 100)
            .unwrap_err()
            .to_string()
            .contains("the data has 1x32x32")
    );
}

/// Every recipe that comes with the product can be read, and its network has the ReLUs that its title says, or the
/// comparisons and gated values.
#[test]
fn the_recipes_that_come_with_the_product_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut count = 0;
    let folders = ["", "frontier", "ablations"].map(|inside| std::fs::read_dir(folder.join(inside)).unwrap());
    for entry in folders.into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let recipe = Recipe::from_file(&path).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        let (side, classes) = match recipe.data.set {
            DataKind::Cifar100 => (32, 100),
            DataKind::Cifar10 => (32, 10),
            DataKind::TinyImageNet => (64, 200),
            DataKind::Folder => (recipe.data.side.unwrap_or(32), 10),
            DataKind::Synthetic => (recipe.data.synthetic.unwrap_or_default().side, 10),
        };
        let spec = recipe.network.build(Shape::image(side), classes).unwrap();
        count += 1;
        if let Some(crate::method::OptimizeSection::SharedSigns(section)) = &recipe.optimize {
            let counts = section.plan(&recipe, Shape::image(side), classes).unwrap().cost.counts();
            assert!(recipe.title.contains(&counts.to_string().replace(',', "")), "{}", path.display());
            continue;
        }
        if let Some(optimize) = &recipe.optimize {
            // Its title says what is asked for, since that is what comes out.
            if let Some(crate::method::ReluBudget::Count(budget)) = optimize.budget() {
                assert!(recipe.title.contains(&format!("{budget} ReLUs")), "{}", path.display());
            }
            continue;
        }
        let cost = Cost::of(&spec);
        let said = match cost.gated_values {
            0 => format!("{} ReLUs", cost.relus),
            gated_values => format!("{} comparisons and {gated_values} gated values", cost.relus),
        };
        assert!(
            recipe.title.contains(&said),
            "{}: the title says {:?}, not {said}",
            path.display(),
            recipe.title
        );
        count += 1;
    }
    assert!(count >= 40, "{count} recipes");
}
