//! Which channels can go, and what is left when they do.

use super::*;
use crate::cost::Cost;
use crate::zoo;

fn found(name: &str) -> (NetworkSpec, Vec<PrunableChannels>) {
    let spec = zoo::build(name, 32, 100).unwrap();
    let channels = prunable_channels(&spec);
    (spec, channels)
}

fn names(spec: &NetworkSpec, steps: &[StepId]) -> Vec<String> {
    steps.iter().map(|step| spec.walk().steps()[step.0].name.clone()).collect()
}

#[test]
fn a_block_has_channels_of_its_own_and_a_stage_one_stream() {
    let (spec, all) = found("resnet18");
    let (streams, inner): (Vec<_>, Vec<_>) = all.iter().partition(|channels| channels.is_stream);
    assert_eq!((streams.len(), inner.len()), (4, 8));
    let first = inner[0];
    assert_eq!(first.name, "stage1.block1.body.conv1");
    assert_eq!((first.channels, first.relus_per_channel), (64, 1024));
    assert_eq!(names(&spec, &first.followers), ["stage1.block1.body.norm1"]);
    assert_eq!(names(&spec, &first.readers), ["stage1.block1.body.conv2"]);
    // Stem, and the second convolution of both blocks; ReLUs behind each of them.
    let stream = streams[0];
    assert_eq!(
        names(&spec, &stream.makers),
        ["stem.conv1", "stage1.block1.body.conv2", "stage1.block2.body.conv2"]
    );
    assert_eq!(stream.relus_per_channel, 3 * 1024);
    assert_eq!(stream.readers.len(), 4, "{:?}", names(&spec, &stream.readers));
    assert_eq!(names(&spec, &streams[3].readers).last().unwrap(), "head.fc1");
    let relus: u64 = all.iter().map(|channels| channels.channels as u64 * channels.relus_per_channel).sum();
    assert_eq!(relus, Cost::of(&spec).relus);
}

#[test]
fn other_families_are_read_from_their_walks() {
    // Without a stream all convolutions can go; the ReLUs of hidden layers stay.
    let (spec, all) = found("vgg11");
    assert_eq!(all.len(), 8);
    assert!(all.iter().all(|channels| !channels.is_stream && channels.readers.len() == 1));
    assert_eq!(names(&spec, &all[7].readers), ["head.fc1"]);
    let relus: u64 = all.iter().map(|channels| channels.channels as u64 * channels.relus_per_channel).sum();
    assert_eq!(relus, Cost::of(&spec).relus - 2 * 4096);
    // A depthwise convolution passes channels on, with ReLUs before and behind it.
    let (spec, all) = found("mobilenetv2");
    let expanded = all.iter().find(|channels| channels.name == "stage2.block1.conv1").unwrap();
    assert_eq!(expanded.followers.len(), 3, "{:?}", names(&spec, &expanded.followers));
    assert_eq!(expanded.relus_per_channel, 2 * 1024);
    // Nothing is added to what the stem of a WideResNet makes: two convolutions read it.
    let (_, all) = found("wrn-16x4");
    let inner: Vec<_> = all.iter().filter(|channels| !channels.is_stream).collect();
    assert_eq!((inner.len(), inner[0].name.as_str(), inner[0].readers.len()), (7, "stem.conv1", 2));
    // Shared signs and concatenations need their channels as they are; the first stage of a signet has no signs.
    let (_, all) = found("signet");
    let inner: Vec<_> = all.iter().filter(|channels| !channels.is_stream).collect();
    assert!(
        inner.iter().all(|channels| channels.name.starts_with("stage1.") && channels.relus_per_channel == 0),
        "{inner:?}"
    );
    // Of a cell only the end has ReLUs, and the next two cells read it.
    let (_, all) = found("sphynx:c=5,d=5");
    let with_relus: Vec<_> = all.iter().filter(|channels| channels.relus_per_channel > 0).collect();
    assert!(with_relus.iter().all(|channels| channels.name.ends_with(".post.conv1")), "{with_relus:?}");
}

#[test]
fn every_network_of_the_zoo_fits_with_half_of_its_channels() {
    for entry in zoo::catalog() {
        let spec = zoo::build(entry.name, entry.input, 10).unwrap();
        let all = prunable_channels(&spec);
        let kept: BTreeMap<String, usize> =
            all.iter().map(|channels| (channels.name.clone(), channels.channels.div_ceil(2))).collect();
        let pruned = keep_channels(&spec, &kept).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let gone: u64 =
            all.iter().map(|channels| (channels.channels / 2) as u64 * channels.relus_per_channel).sum();
        assert_eq!(Cost::of(&pruned).relus + gone, Cost::of(&spec).relus, "{}", entry.name);
        let steps = |spec: &NetworkSpec| -> Vec<String> {
            spec.walk().steps().iter().map(|step| step.name.clone()).collect()
        };
        assert_eq!(steps(&pruned), steps(&spec), "{}", entry.name);
        let sizes: Vec<usize> = prunable_channels(&pruned).iter().map(|channels| channels.channels).collect();
        assert_eq!(sizes, all.iter().map(|channels| kept[&channels.name]).collect::<Vec<_>>());
    }
}

#[test]
fn what_cannot_be_kept_is_refused_with_what_can() {
    let (spec, _) = found("resnet18:m=4,depths=1+1+1+1");
    let refusal = |name: &str, count: usize| {
        keep_channels(&spec, &BTreeMap::from([(name.to_owned(), count)])).unwrap_err().to_string()
    };
    let text = refusal("stage1.block1.body.conv2", 2);
    assert!(text.contains("stem.conv1, stage1.block1.body.conv1"), "{text}");
    let text = refusal("stage1.block1.body.conv1", 0);
    assert_eq!(text, "stage1.block1.body.conv1 has 4 channels and cannot keep 0; expected 1 to 4");
    assert!(refusal("stage1.block1.body.conv1", 5).contains("cannot keep 5"));
}
