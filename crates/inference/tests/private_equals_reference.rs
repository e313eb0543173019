//! Private inference equals the reference that repeats the protocol's rounding, bit for bit, for every family of the
//! zoo at small size; and every byte and round is the predicted one.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use crypto::random::Seed;
use network::digest::Digest;
use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::{InferenceModel, ModelOperation};
use network::mask::{ActivationMask, Bits, SiteMask};
use network::reference;
use network::spec::NetworkSpec;
use network::transform::{
    Reuse, ThinChoice, cull_stage, drop_stem_relus, reuse_relus, scale_channels, thin_stage,
};
use network::walk::StageIndex;
use network::weights::FloatWeights;
use network::zoo;
use sordino_inference::client::{Answer, Client, HalvesCache, MemoryHalves, ShareRecord, Wishes};
use sordino_inference::connection::{Connection, Role, memory_pair};
use sordino_inference::plan::{Depth, PlannedMessage};
use sordino_inference::plan::{Plan, PlannedTraffic, ReluRounding, Reveal, Terms};
use sordino_inference::server::{PreparedServer, ServedModel, Server, WeightMemory};
use sordino_inference::transcript::{Phase, Transcript};
use sordino_inference::verify::ProtocolCoins;

use support::{narrow_pair, patiently};

/// Both parties in one process; gives the answers, the oracle's answers and the client's transcript.
fn run_both_parties(
    model: &InferenceModel,
    terms: impl Into<Terms>,
    memory: WeightMemory,
    images: &[Image],
) -> (Vec<Answer>, Vec<Vec<i64>>, Transcript, PlannedTraffic) {
    let terms = terms.into();
    let (served, reveal) = (Arc::new(ServedModel::new(model, terms, memory).unwrap()), terms.reveal);
    let (client_end, server_end) = memory_pair();
    let (own_images, threads) = (images.to_vec(), NonZeroUsize::MIN);
    let plan = Arc::clone(served.plan());
    let (answers, records, ours, planned) =
        patiently(move || run_over((client_end, server_end), &served, reveal, threads, &own_images));
    let expected = images.iter().zip(records).map(|(image, record)| expected(model, &plan, image, record));
    (answers, expected.collect(), ours, planned)
}

/// What the reference says that is given the secrets of both parties.
fn expected(
    model: &InferenceModel,
    plan: &Plan,
    image: &Image,
    (record, seed): (ShareRecord, Seed),
) -> Vec<i64> {
    let coins = ProtocolCoins::new(model, plan, record, &seed).unwrap();
    reference::run_with(model, image, &coins).unwrap()
}

/// Both parties over the two ends of a stream.
fn run_over<S: Read + Write + Send + 'static>(
    (client_end, server_end): (S, S),
    served: &Arc<ServedModel>,
    reveal: Reveal,
    threads: NonZeroUsize,
    images: &[Image],
) -> (Vec<Answer>, Vec<(ShareRecord, Seed)>, Transcript, PlannedTraffic) {
    let (served, count) = (Arc::clone(served), images.len());
    let server = thread::spawn(move || {
        let mut server =
            Server::accept(Connection::new(server_end, Role::Server), served, b"channel").unwrap();
        server.use_threads(threads).unwrap();
        let mut seeds = Vec::new();
        for _ in 0..count {
            let prepared = server.prepare().unwrap();
            seeds.push(prepared.mask_seed());
            server.classify(prepared).unwrap();
        }
        (server.connection().transcript().clone(), seeds)
    });
    let mut client = Client::connect(Connection::new(client_end, Role::Client), reveal, b"channel").unwrap();
    client.use_threads(threads).unwrap();
    let (mut answers, mut records) = (Vec::new(), Vec::new());
    for image in images {
        let mut prepared = client.prepare_recorded().unwrap();
        records.push(prepared.take_record().unwrap());
        answers.push(client.classify(prepared, image).unwrap());
    }
    let (theirs, seeds) = server.join().unwrap();
    let ours = client.connection().transcript().clone();
    for phase in [Phase::SetUp, Phase::Offline, Phase::Online] {
        assert_eq!(ours.phase(phase), theirs.phase(phase), "both parties count the same");
    }
    (answers, records.into_iter().zip(seeds).collect(), ours, client.plan().traffic(client.depth()))
}

#[test]
fn nobody_waits_forever_on_a_stream_that_holds_nothing() {
    let model = support::tiny_model();
    let image = Image::random(model.outline().input, 3);
    for threads in [1, 2].map(|count| NonZeroUsize::new(count).unwrap()) {
        let (served, images) = (support::served(&model), [image.clone()]);
        let plan = Arc::clone(served.plan());
        let (answers, mut records, ours, planned) =
            patiently(move || run_over(narrow_pair(), &served, Reveal::Logits, threads, &images));
        assert_eq!(answers, [Answer::Logits(expected(&model, &plan, &image, records.remove(0)))]);
        assert_eq!(
            (ours.phase(Phase::Offline), ours.phase(Phase::Online)),
            (planned.offline, planned.online)
        );
    }
}

fn frozen(spec: &NetworkSpec, mask: Option<&ActivationMask>, seed: u64) -> InferenceModel {
    let weights = FloatWeights::random(spec, seed);
    let images: Vec<_> = (0..2).map(|number| Image::random(spec.draft().input, number)).collect();
    freeze(spec, &weights, mask, &images, &FreezeOptions::default()).unwrap().0
}

fn assert_private_equals_reference(name: &str, model: &InferenceModel) {
    assert_private_equals_reference_with(name, model, ReluRounding::Stochastic);
}

fn assert_private_equals_reference_with(name: &str, model: &InferenceModel, relus: ReluRounding) {
    let images = [Image::random(model.outline().input, 77)];
    let terms = Terms { reveal: Reveal::Logits, relus };
    let (answers, expected, transcript, planned) =
        run_both_parties(model, terms, WeightMemory::Everything, &images);
    assert_eq!(answers, [Answer::Logits(expected[0].clone())], "{name}");
    assert_eq!(transcript.phase(Phase::SetUp), planned.set_up, "{name}");
    assert_eq!(transcript.phase(Phase::Offline), planned.offline, "{name}");
    assert_eq!(transcript.phase(Phase::Online), planned.online, "{name}");
}

fn build(name: &str, side: usize) -> NetworkSpec {
    zoo::build(name, side, 10).unwrap()
}

/// Keeps about half of the ReLUs: by pixel, by channel, all or none, site after site.
fn mixed_mask(spec: &NetworkSpec) -> ActivationMask {
    let mut state = 12345_u64;
    let mut coin = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 62 == 0
    };
    let masks = spec.walk().sites().iter().enumerate().map(|(index, site)| match index % 4 {
        0 => SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|_| coin()))),
        1 => SiteMask::Channels(Bits::collect((0..site.shape.channels).map(|_| coin()))),
        2 => SiteMask::DropAll,
        _ => SiteMask::KeepAll,
    });
    ActivationMask::new(spec, masks.collect()).unwrap()
}

#[test]
fn every_family_of_the_zoo_at_small_size() {
    let quarter = |spec: &NetworkSpec| scale_channels(spec, 0.125).unwrap();
    let networks = [
        ("resnet", build("resnet10:m=4", 16)),
        ("thin resnet", build("resnet20:m=4,depths=1+1+1", 16)),
        ("hybrenet", build("hrn-2x3x2x:m=4,depths=1+1+1+1", 16)),
        ("wide resnet", build("wrn-10x1", 16)),
        ("vgg", build("vgg11:c=4,hidden=16", 32)),
        ("vgg average", build("vgg11:c=4,hidden=16,pool=average", 32)),
        ("mobilenetv1", quarter(&build("mobilenetv1", 32))),
        ("mobilenetv2", quarter(&build("mobilenetv2:clip=yes", 32))),
        ("sphynx", build("sphynx:c=2,d=4,reduce=1+2", 16)),
        ("sphynx with pooling", build("sphynx:c=2,d=3,reduce=0+1,cells=pc-darts", 16)),
        ("darts", build("darts:c=2,d=3", 16)),
    ];
    for (number, (name, spec)) in networks.into_iter().enumerate() {
        assert_private_equals_reference(name, &frozen(&spec, None, number as u64));
    }
}

/// Every family of the zoo that shares signs, at small size: any number of values per sign, with slopes and without, culled
/// stages, strided stems, signs on sums, merged branches, either shortcut, the ends of cells. ReLUs among them may be exact.
#[test]
fn shared_signs_of_every_kind() {
    let names = [
        "signet:signs=0+2+4,stream=4+8+16,depths=1+1+1",
        "signet:signs=0+4,values=1,stream=4+8,depths=1+1",
        "signet:signs=2+2,values=2,stream=8+8,depths=2+1,slopes=no",
        "signet:signs=0+2,values=8,stream=4+8,depths=1+1,branches=yes",
        "signet:signs=0+1,values=16,stream=4+8,depths=1+2,shortcut=strided",
        "signet:signs=2+2,values=3,stream=4+8,depths=1+1,full=2,stem-relu=yes",
        "signet:signs=2+4,values=4,stream=4+8,depths=1+1,stem-filter=5,stem-stride=2",
        "signet:signs=2+4,values=4,stream=4+8,depths=1+1,stem-filter=7,stem-stride=4",
        "sphynx:c=2,d=3,reduce=0+1,values=2",
    ];
    let signet = zoo::families().iter().find(|family| family.pattern.starts_with("signet")).unwrap();
    for (option, _) in signet.options {
        assert!(
            names.iter().any(|name| name.contains(&format!("{option}="))),
            "no network here has {option}"
        );
    }
    for (seed, name) in names.into_iter().enumerate() {
        let spec = build(name, 16);
        let model = frozen(&spec, None, seed as u64);
        assert_eq!(model.outline().relu_count(), network::cost::Cost::of(&spec).relus, "{name}");
        assert_private_equals_reference(name, &model);
        let masked = frozen(&spec, Some(&mixed_mask(&spec)), seed as u64);
        assert_private_equals_reference(&format!("{name}, masked"), &masked);
        assert_private_equals_reference_with(
            &format!("{name}, masked, exact"),
            &masked,
            ReluRounding::Nearest,
        );
    }
}

/// Groups of several sizes have a part each, and leaders are where the data says.
#[test]
fn listed_groups_of_several_sizes() {
    for slopes in [false, true] {
        let text = format!(
            "name = \"listed\"\nclasses = 10\ninput = {{ channels = 3, height = 8, width = 8 }}\n\
             head = [\"global_average_pool\", \"classifier\"]\n[stem]\n\
             layers = [{{ conv = {{ out = 7, filter = 3 }} }}, \"batch_norm\", \
             {{ shared_signs = {{ groups = [[5, 0, 1], [2], [4, 3], [6]], slopes = {slopes} }} }}]\n"
        );
        let spec = NetworkSpec::from_toml(&text).unwrap();
        let model = frozen(&spec, None, 3);
        let plan = Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
        let layers = plan.layers(Depth::Four);
        let counts: Vec<_> = layers.iter().map(|layer| (layer.relus, layer.gated_values)).collect();
        assert_eq!(counts, [(0, 0), (4 * 64, 3 * 64), (0, 0)]);
        assert_private_equals_reference("listed", &model);
    }
}

#[test]
fn dropped_relus_of_every_kind() {
    let spec = build("resnet18:m=4", 16);
    let masked = frozen(&spec, Some(&mixed_mask(&spec)), 1);
    assert_private_equals_reference("mask", &masked);

    let culled = drop_stem_relus(&cull_stage(&spec, StageIndex(1)).unwrap()).unwrap();
    assert_private_equals_reference("culled", &frozen(&culled, None, 2));

    let thinned = (2..=4)
        .try_fold(culled, |spec, stage| thin_stage(&spec, StageIndex(stage), ThinChoice::default()))
        .unwrap();
    assert_private_equals_reference("thinned", &frozen(&thinned, None, 3));

    let reused = reuse_relus(&thinned, Reuse::new(4)).unwrap();
    assert_private_equals_reference("reused", &frozen(&reused, None, 4));

    let linear =
        (1..=4).try_fold(drop_stem_relus(&spec).unwrap(), |spec, stage| cull_stage(&spec, StageIndex(stage)));
    assert_private_equals_reference("no ReLU at all", &frozen(&linear.unwrap(), None, 5));
}

/// The same model with ranges that are too narrow by so many bits. Rings stay as they are: wider than these ranges need,
/// as if another reader needed that.
fn with_narrow_ranges(model: &InferenceModel, bits: u32) -> InferenceModel {
    let mut outline = model.outline().clone();
    for step in &mut outline.steps {
        match &mut step.operation {
            ModelOperation::Activate { width, shift, ceiling, .. } => {
                *width = width.saturating_sub(bits).max(*shift + 2);
                let room = (1 << (*width - 1 - *shift)) - 1;
                *ceiling = ceiling.map(|ceiling| ceiling.min(room));
            }
            ModelOperation::Gate(gate) => gate.width = gate.width.saturating_sub(bits).max(gate.shift + 2),
            ModelOperation::Maximum { width, .. } => *width = width.saturating_sub(bits).max(2),
            _ => {}
        }
    }
    InferenceModel::new(outline, model.layers().to_vec()).unwrap()
}

#[test]
fn values_outside_of_their_ranges_wrap_as_in_the_reference() {
    let spec = build("resnet10:m=4", 16);
    let clipped = scale_channels(&build("mobilenetv2:clip=yes", 32), 0.125).unwrap();
    let pooled = build("vgg11:c=4,hidden=16", 32);
    let gated = build("signet:signs=4+2,values=2,stream=8+8,depths=2+1,slopes=no", 16);
    let sloping = build("signet:signs=2+4,values=3,stream=4+8,depths=1+1", 16);
    let networks = [(spec, 12), (clipped, 13), (pooled, 14), (gated, 15), (sloping, 16)];
    for (number, (spec, seed)) in networks.into_iter().enumerate() {
        let model = frozen(&spec, Some(&mixed_mask(&spec)), seed);
        for bits in [1, 3, 7] {
            let narrow = with_narrow_ranges(&model, bits);
            let image = Image::random(model.outline().input, 77);
            let [right, wrong] = [&model, &narrow].map(|model| reference::run(model, &image).unwrap());
            assert!(bits == 1 || right != wrong, "network {number} less {bits} bits stays in its ranges");
            assert_private_equals_reference(&format!("network {number} less {bits} bits"), &narrow);
        }
    }
}

#[test]
fn several_inferences_after_one_set_up_and_bounded_memory() {
    for model in [frozen(&build("resnet10:m=4", 16), None, 6), support::sign_sharing_model()] {
        let images: Vec<_> = (0..3).map(|number| Image::random(model.outline().input, 50 + number)).collect();
        let (answers, expected, ..) =
            run_both_parties(&model, Reveal::Logits, WeightMemory::AtMost(100_000), &images);
        assert_eq!(answers, expected.into_iter().map(Answer::Logits).collect::<Vec<_>>());
    }
}

#[test]
fn a_batch_shares_round_trips_and_gives_every_image_its_own_answer() {
    let spec = build("resnet10:m=4", 16);
    assert_batch_equals_reference(&frozen(&spec, Some(&mixed_mask(&spec)), 10));
    assert_batch_equals_reference(&support::sign_sharing_model());
}

fn assert_batch_equals_reference(model: &InferenceModel) {
    let images: Vec<_> = (0..3).map(|number| Image::random(model.outline().input, 20 + number)).collect();
    let served = Arc::new(ServedModel::new(model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let mut server = Server::accept(Connection::new(server_end, Role::Server), served, b"").unwrap();
        let prepared: Vec<_> = (0..3).map(|_| server.prepare().unwrap()).collect();
        let seeds: Vec<_> = prepared.iter().map(PreparedServer::mask_seed).collect();
        server.classify_batch(prepared).unwrap();
        seeds
    });
    let mut client = Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").unwrap();
    let mut batch: Vec<_> = images.iter().map(|image| (client.prepare_recorded().unwrap(), image)).collect();
    let records: Vec<_> = batch.iter_mut().map(|(prepared, _)| prepared.take_record().unwrap()).collect();
    let answers = client.classify_batch(batch).unwrap();
    let secrets = records.into_iter().zip(server.join().unwrap());
    for ((answer, image), secrets) in answers.into_iter().zip(&images).zip(secrets) {
        assert_eq!(answer, Answer::Logits(expected(model, client.plan(), image, secrets)));
    }
    let online = client.connection().transcript().phase(Phase::Online);
    let planned = client.plan().traffic(client.depth()).online;
    assert_eq!(online.rounds, planned.rounds);
    assert_eq!((online.bytes_up, online.bytes_down), (3 * planned.bytes_up, 3 * planned.bytes_down));
}

#[test]
fn a_watcher_hears_of_every_layer_and_byte_of_the_offline_phase() {
    let model = frozen(&build("resnet10:m=4", 16), None, 11);
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let connection = Connection::new(server_end, Role::Server);
        Server::accept(connection, served, b"channel").unwrap().prepare().unwrap();
    });
    let connection = Connection::new(client_end, Role::Client);
    let mut client = Client::connect(connection, Reveal::Logits, b"channel").unwrap();
    let (sender, heard) = std::sync::mpsc::channel();
    client.watch(Box::new(move |progress| sender.send((progress.layer.to_owned(), progress.bytes)).unwrap()));
    client.prepare().unwrap();
    server.join().unwrap();
    let heard: Vec<_> = heard.try_iter().collect();
    assert_eq!(heard.len(), client.plan().layer_count());
    assert!(heard.is_sorted_by_key(|(_, bytes)| *bytes));
    assert_eq!(heard[0].0, "stem.conv1");
    // Behind the last layer the client has the last word.
    let messages = client.plan().messages(client.depth());
    let offline = messages.iter().rev().filter(|message| message.phase == Phase::Offline);
    let last: usize = offline.take_while(|message| message.is_upward).map(PlannedMessage::framed_bytes).sum();
    let all = client.connection().transcript().bytes(Phase::Offline);
    assert_eq!(heard.last().unwrap().1 + last as u64, all);
}

/// Deep trees of transfers, for slow links, send other bytes and give the same answer.
#[test]
fn deep_trees_give_the_answer_of_the_reference_with_fewer_bytes() {
    for model in [support::tiny_model(), support::sign_sharing_model()] {
        let image = Image::random(model.outline().input, 61);
        let served = support::served(&model);
        let (client_end, server_end) = memory_pair();
        let server = thread::spawn(move || {
            let mut server = Server::accept(Connection::new(server_end, Role::Server), served, b"").unwrap();
            let prepared = server.prepare().unwrap();
            let seed = prepared.mask_seed();
            server.classify(prepared).unwrap();
            seed
        });
        let wishes = Wishes { depth: Some(Depth::Eight), ..Wishes::default() };
        let connection = Connection::new(client_end, Role::Client);
        let mut client = Client::connect_with(connection, &wishes, b"").unwrap();
        assert_eq!(client.depth(), Depth::Eight);
        let mut prepared = client.prepare_recorded().unwrap();
        let record = prepared.take_record().unwrap();
        let answer = client.classify(prepared, &image).unwrap();
        let secrets = (record, server.join().unwrap());
        assert_eq!(answer, Answer::Logits(expected(&model, client.plan(), &image, secrets)));
        let [deep, shallow] = [Depth::Eight, Depth::Four].map(|depth| client.plan().traffic(depth));
        let transcript = client.connection().transcript();
        assert_eq!(transcript.phase(Phase::SetUp), deep.set_up);
        assert_eq!(transcript.phase(Phase::Offline), deep.offline);
        assert_eq!(transcript.phase(Phase::Online), deep.online);
        assert!(deep.offline.bytes_up < shallow.offline.bytes_up);
    }
}

/// Second halves of answers cross once, and serve every inference of the session.
#[test]
fn further_inferences_of_a_session_send_no_second_halves() {
    for model in [support::tiny_model(), support::sign_sharing_model()] {
        assert_second_halves_cross_once(&model);
    }
}

fn assert_second_halves_cross_once(model: &InferenceModel) {
    let images: Vec<_> = (0..3).map(|seed| Image::random(model.outline().input, 40 + seed)).collect();
    let (answers, expected, transcript, planned) =
        run_both_parties(model, Reveal::Logits, WeightMemory::Everything, &images);
    assert_eq!(answers, expected.into_iter().map(Answer::Logits).collect::<Vec<_>>());
    let (first, again) = (planned.offline, planned.later_offline);
    let offline = transcript.phase(Phase::Offline);
    assert_eq!(offline.bytes_up, 3 * first.bytes_up);
    assert_eq!(offline.bytes_down, first.bytes_down + 2 * again.bytes_down);
    assert!(again.bytes_up == first.bytes_up && again.bytes_down < first.bytes_down);
}

/// A client that keeps them needs none in later sessions; a damaged or foreign cache is as good as none.
#[test]
fn a_returning_client_gets_no_second_halves() {
    let model = support::tiny_model();
    let image = Image::random(model.outline().input, 44);
    let salted = |salt: u8| {
        ServedModel::with_salt(&model, Reveal::Logits, WeightMemory::Everything, &[salt; 32]).unwrap()
    };
    let cache = Arc::new(MemoryHalves::default());
    let meet = |served: ServedModel, cache: Arc<dyn HalvesCache>| {
        let (client_end, server_end) = memory_pair();
        let image = image.clone();
        let server = thread::spawn(move || {
            let connection = Connection::new(server_end, Role::Server);
            let mut server = Server::accept(connection, Arc::new(served), b"").unwrap();
            let prepared = server.prepare().unwrap();
            let seed = prepared.mask_seed();
            server.classify(prepared).unwrap();
            seed
        });
        let wishes = Wishes { halves: Some(cache), ..Wishes::default() };
        let connection = Connection::new(client_end, Role::Client);
        let mut client = Client::connect_with(connection, &wishes, b"").unwrap();
        let had = client.has_halves();
        let mut prepared = client.prepare_recorded().unwrap();
        let record = prepared.take_record().unwrap();
        let answer = client.classify(prepared, &image).unwrap();
        let secrets = (record, server.join().unwrap());
        assert_eq!(answer, Answer::Logits(expected(&model, client.plan(), &image, secrets)));
        assert!(client.has_halves());
        let planned = client.plan().traffic(client.depth());
        let offline = client.connection().transcript().phase(Phase::Offline);
        assert_eq!(offline, if had { planned.returning_offline } else { planned.offline });
        assert!(planned.returning_offline.bytes_down < planned.offline.bytes_down);
        had
    };
    assert!(!meet(salted(1), cache.clone()), "nothing is known before the first session");
    assert!(meet(salted(1), cache.clone()), "another process with the same salt has the same second halves");
    assert!(!meet(salted(2), cache.clone()), "with another salt they are others");
    assert!(meet(salted(1), cache), "and the first are still there");

    #[derive(Debug)]
    struct Damaged(usize);
    impl HalvesCache for Damaged {
        fn get(&self, _: &Digest) -> Option<Vec<u8>> {
            Some(vec![0xff; self.0])
        }
        fn put(&self, _: &Digest, _: &[u8]) {}
    }
    let length = salted(1).plan().client_session_memory() as usize;
    for bytes in [0, length - 1, length + 1] {
        assert!(!meet(salted(1), Arc::new(Damaged(bytes))), "{bytes} bytes that are none");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_answer() {
    for name in ["resnet10:m=20", "signet:signs=16+16,values=4,stream=32+64,depths=1+1"] {
        let spec = build(name, 16);
        assert_threads_give_the_same_answer(&frozen(&spec, Some(&mixed_mask(&spec)), 11));
    }
}

fn assert_threads_give_the_same_answer(model: &InferenceModel) {
    let image = Image::random(model.outline().input, 30);
    let served = Arc::new(ServedModel::new(model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let mut server = Server::accept(Connection::new(server_end, Role::Server), served, b"").unwrap();
        server.use_threads(3.try_into().unwrap()).unwrap();
        let prepared = server.prepare().unwrap();
        let seed = prepared.mask_seed();
        server.classify(prepared).unwrap();
        seed
    });
    let mut client = Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").unwrap();
    client.use_threads(2.try_into().unwrap()).unwrap();
    let mut prepared = client.prepare_recorded().unwrap();
    let record = prepared.take_record().unwrap();
    let answer = client.classify(prepared, &image).unwrap();
    let secrets = (record, server.join().unwrap());
    assert_eq!(answer, Answer::Logits(expected(model, client.plan(), &image, secrets)));
    assert_eq!(
        client.connection().transcript().phase(Phase::Online),
        client.plan().traffic(client.depth()).online
    );
}

#[test]
fn the_class_alone_is_the_class_of_the_logits() {
    assert_class_is_that_of_the_logits(&frozen(&build("resnet10:m=4", 16), None, 7));
    assert_class_is_that_of_the_logits(&support::sign_sharing_model());
}

fn assert_class_is_that_of_the_logits(model: &InferenceModel) {
    let images: Vec<_> = (0..2).map(|number| Image::random(model.outline().input, 90 + number)).collect();
    let (answers, expected, transcript, planned) =
        run_both_parties(model, Reveal::Class, WeightMemory::Everything, &images);
    for (answer, expected) in answers.iter().zip(expected) {
        let Answer::Class(class) = answer else { panic!("the class alone was asked for") };
        // The circuit compares unrounded logits; rounded ones may tie.
        assert!(expected[*class] + 1 >= *expected.iter().max().unwrap());
    }
    let online = transcript.phase(Phase::Online);
    assert_eq!(
        (online.bytes_up, online.bytes_down),
        (2 * planned.online.bytes_up, 2 * planned.online.bytes_down)
    );
}

#[test]
fn garbled_bytes_are_proportional_to_kept_relus() {
    let spec = build("resnet10:m=4", 16);
    let with = |kept: usize| {
        let masks = spec.walk().sites().iter().map(|site| {
            SiteMask::Pixels(Bits::collect((0..site.shape.scalars() as usize).map(|index| index % 8 < kept)))
        });
        let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
        let model = frozen(&spec, Some(&mask), 8);
        let plan =
            sordino_inference::plan::Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
        let layers = plan.layers(Depth::Four);
        let relus: u64 = layers.iter().map(|layer| layer.relus).sum();
        let garbled: u64 =
            layers.iter().map(|layer| layer.nonlinear_offline + layer.online - layer.truncation).sum();
        (relus, garbled as f64)
    };
    let (few, few_bytes) = with(1);
    let (many, many_bytes) = with(8);
    assert_eq!(many, 8 * few);
    assert!((many_bytes / few_bytes / 8.0 - 1.0).abs() < 0.15, "{few_bytes} {many_bytes}");
}

#[test]
fn the_small_hybrenet_needs_at_most_eight_round_trips() {
    let spec = zoo::build("hrn-2x5x3x:m=8", 32, 100).unwrap();
    let spec = drop_stem_relus(&cull_stage(&spec, StageIndex(1)).unwrap()).unwrap();
    let spec = (2..=4)
        .try_fold(spec, |spec, stage| thin_stage(&spec, StageIndex(stage), ThinChoice::default()))
        .unwrap();
    let model = frozen(&spec, None, 9);
    let plan = sordino_inference::plan::Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
    assert_eq!(model.outline().relu_count(), 26_112);
    assert!(
        plan.traffic(Depth::Four).online.rounds <= 16,
        "{} changes of direction",
        plan.traffic(Depth::Four).online.rounds
    );
}
