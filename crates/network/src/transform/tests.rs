use super::*;
use crate::cost::Cost;
use crate::shape::Shape;
use crate::spec::{Branches, Conv, Group, Groups, Join, Pool, Residual, Split, Stage, Stem};
use crate::walk::{Operation, Step};
use crate::zoo;
use proptest::prelude::*;

/// One transform with its arguments.
#[derive(Clone, Copy, Debug)]
enum Change {
    Cull(usize),
    Thin(usize, ThinChoice),
    Channels(usize),
    Resolution,
    Stem,
    Reuse(Reuse),
    FirstBlock(usize),
}

impl Change {
    fn apply(self, spec: &NetworkSpec) -> Result<NetworkSpec, TransformError> {
        match self {
            Self::Cull(stage) => cull_stage(spec, StageIndex(stage)),
            Self::Thin(stage, choice) => thin_stage(spec, StageIndex(stage), choice),
            Self::Channels(quarters) => scale_channels(spec, quarters as f64 / 4.0),
            Self::Resolution => scale_resolution(spec, 0.5),
            Self::Stem => drop_stem_relus(spec),
            Self::Reuse(reuse) => reuse_relus(spec, reuse),
            Self::FirstBlock(stage) => keep_first_block(spec, StageIndex(stage)),
        }
    }

    /// Whether nothing but ReLUs goes.
    fn only_drops(self) -> bool {
        matches!(self, Self::Cull(_) | Self::Thin(..) | Self::Stem)
    }

    /// Whether this is a reason for this change to fail.
    fn may_fail_with(self, error: &TransformError) -> bool {
        match error {
            TransformError::NoSuchStage { stage, stages, .. } => stage > stages,
            TransformError::Shapes(_) => {
                matches!(self, Self::Channels(_) | Self::Resolution | Self::FirstBlock(_))
            }
            TransformError::NotReusable { .. }
            | TransformError::SharedSigns { .. }
            | TransformError::NothingToReuse { .. }
            | TransformError::Indivisible { .. } => matches!(self, Self::Reuse(_)),
            TransformError::StageEnd { .. } => matches!(self, Self::FirstBlock(_)),
            TransformError::NoConvolution { .. } => matches!(self, Self::Resolution),
            _ => false,
        }
    }
}

fn changes() -> impl Strategy<Value = Change> {
    let stage = || 1_usize..6;
    let layout =
        prop_oneof![Just(ReuseLayout::Three), Just(ReuseLayout::Equal), Just(ReuseLayout::EqualShortcut),];
    let scope = prop_oneof![Just(ReuseScope::Block), Just(ReuseScope::All)];
    let reuse = (prop_oneof![Just(2_usize), Just(4), Just(3)], layout, scope)
        .prop_map(|(factor, layout, scope)| Change::Reuse(Reuse { factor, layout, scope }));
    prop_oneof![
        stage().prop_map(Change::Cull),
        (stage(), prop_oneof![Just(ThinChoice::AfterSum), Just(ThinChoice::Inner)])
            .prop_map(|(stage, choice)| Change::Thin(stage, choice)),
        (1_usize..9).prop_map(Change::Channels),
        Just(Change::Resolution),
        Just(Change::Stem),
        reuse,
        stage().prop_map(Change::FirstBlock),
    ]
}

fn networks() -> impl Strategy<Value = NetworkSpec> {
    let entries: Vec<_> = zoo::catalog().iter().filter(|entry| entry.input <= 32).collect();
    (0..entries.len()).prop_map(move |index| zoo::build(entries[index].name, 32, 10).unwrap())
}

/// A list that keeps the map and its channels, made of everything that may stand in one.
fn layers(channels: usize) -> impl Strategy<Value = Vec<Layer>> {
    let conv =
        (0..3_usize, 1_usize..4, any::<bool>(), 0..3_usize).prop_map(move |(half, dilation, bias, kind)| {
            let groups = [Groups::DENSE, Groups::Count(2), Groups::Depthwise][kind];
            Layer::Conv(Conv { dilation, bias, groups, ..Conv::new(channels, 2 * half + 1) })
        });
    let leaf = prop_oneof![
        3 => conv,
        2 => Just(Layer::Relu),
        1 => Just(Layer::Relu6),
        1 => Just(Layer::BatchNorm),
        1 => Just(Layer::AveragePool(Pool::new(3, 1).padding(1))),
        1 => Just(Layer::MaxPool(Pool::new(3, 1).padding(1))),
    ];
    let list = prop::collection::vec(leaf, 0..4).boxed();
    let branches = prop::collection::vec(list.clone(), 1..4)
        .prop_map(|branches| Layer::Branches(Branches { join: Join::Sum, branches }));
    let half =
        move |carry: Option<Vec<Layer>>, layers: Vec<Layer>| Group { channels: channels / 2, carry, layers };
    let relus = prop::collection::vec(prop_oneof![Just(Layer::Relu), Just(Layer::BatchNorm)], 0..3);
    let split =
        (relus.clone(), prop::option::of(relus.clone()), relus).prop_map(move |(first, carry, second)| {
            Layer::Split(Split { groups: vec![half(None, first), half(carry, second)] })
        });
    (list.clone(), prop_oneof![branches, split], list)
        .prop_map(|(before, nested, after)| [before, vec![nested], after].concat())
}

/// A small network of one or two stages with grouped convolutions, branches and splits.
fn generated() -> impl Strategy<Value = NetworkSpec> {
    let block =
        (any::<bool>(), layers(8), layers(8), layers(8)).prop_map(|(is_plain, before, body, after_sum)| {
            match is_plain {
                true => Block::Plain(body),
                false => Block::Residual(Residual { before, body, shortcut: Vec::new(), after_sum }),
            }
        });
    let stage = prop::collection::vec(block, 1..3).prop_map(|blocks| Stage { blocks });
    (layers(8), prop::collection::vec(stage, 1..3)).prop_map(|(rest, stages)| {
        let layers = [vec![Layer::Conv(Conv::new(8, 3))], rest].concat();
        let draft = Draft {
            name: "generated".to_owned(),
            classes: 3,
            input: Shape::image(8),
            stem: Stem { layers, second: Vec::new() },
            stages,
            head: vec![Layer::GlobalAveragePool, Layer::Classifier],
        };
        NetworkSpec::new(draft).unwrap()
    })
}

/// `NetworkSpec` exists only with shapes that fit, so having one is the first half of the claim.
fn assert_sound(spec: &NetworkSpec) -> Result<(), TestCaseError> {
    let parts: Cost = Cost::by_part(spec).into_iter().map(|(_, cost)| cost).sum();
    prop_assert_eq!(parts, Cost::of(spec));
    prop_assert_eq!(&NetworkSpec::from_toml(&spec.to_toml()).unwrap(), spec);
    Ok(())
}

/// What everything but comparisons costs, slopes included in the latter.
fn without_activations(spec: &NetworkSpec) -> Cost {
    let compares =
        |step: &&Step| matches!(step.operation, Operation::Relu { .. } | Operation::SharedSigns { .. });
    let others = spec.walk().steps().iter().filter(|step| !compares(step));
    others.map(|step| Cost::of_step(spec.walk(), step)).sum()
}

fn assert_sound_after(spec: NetworkSpec, changes: Vec<Change>) -> Result<(), TestCaseError> {
    assert_sound(&spec)?;
    let mut spec = spec;
    for change in changes {
        let (before, kept) = (Cost::of(&spec), without_activations(&spec));
        match change.apply(&spec) {
            Ok(after) => {
                assert_sound(&after)?;
                let cost = Cost::of(&after);
                prop_assert!(matches!(change, Change::Channels(_)) || cost.relus <= before.relus);
                if change.only_drops() {
                    prop_assert_eq!(without_activations(&after), kept);
                }
                spec = after;
            }
            Err(error) => prop_assert!(change.may_fail_with(&error), "{:?}: {}", change, error),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_transforms_keep_shapes_consistent_and_counts_honest(
        spec in networks(), changes in prop::collection::vec(changes(), 1..4),
    ) {
        assert_sound_after(spec, changes)?;
    }

    #[test]
    fn so_they_do_on_networks_nobody_thought_of(
        spec in generated(), changes in prop::collection::vec(changes(), 1..4),
    ) {
        assert_sound_after(spec, changes)?;
    }
}

#[test]
fn stages_count_from_one_and_end() {
    let spec = zoo::build("resnet18", 32, 10).unwrap();
    for bad in [0, 5] {
        let error = cull_stage(&spec, StageIndex(bad)).unwrap_err().to_string();
        assert_eq!(error, format!("there is no stage {bad}; resnet18 has stages 1 to 4"));
    }
}
