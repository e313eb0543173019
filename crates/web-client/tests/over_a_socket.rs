//! The browser's client, in this process, against servers as programs know them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crypto::random::Seed;
use crypto::secret::Secret;
use inference::InferenceError;
use inference::connection::{Connection, Fingerprint, Identity, Role, accept_tls};
use inference::plan::{Reveal, Terms};
use inference::requests::{Reply, Request};
use inference::server::{ServedModel, Server, WeightMemory};
use inference::setup::messages::ModelName;
use inference::verify::ProtocolCoins;
use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use network::reference::bound::{self, ReluRounding};
use network::walk::ValueId;
use network::weights::FloatWeights;
use network::zoo;
use sordino_web_client::secured::Secured;
use sordino_web_client::session::{Session, Wanted};

/// Runs a server for one connection; gives the address.
fn serve_once(serve: impl FnOnce(TcpStream) + Send + 'static) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    TcpStream::connect(address).unwrap()
}

#[test]
fn both_kinds_of_identities_are_verified_and_both_ends_get_the_same_binding() {
    let seeded = Identity::from_seed(&Secret::new([5; 32])).unwrap();
    for identity in [Identity::generate().unwrap(), seeded] {
        let pinned = identity.fingerprint();
        let (told, binding) = std::sync::mpsc::channel();
        let socket = serve_once(move |socket| {
            let (mut stream, binding) = accept_tls(socket, &identity).unwrap();
            told.send(binding).unwrap();
            let mut bytes = vec![0; 300_000];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
            stream.flush().unwrap();
        });
        let (mut stream, ours) = Secured::connect(socket, pinned).unwrap();
        assert_eq!(ours, binding.recv().unwrap());
        let sent: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
        stream.write_all(&sent).unwrap();
        stream.flush().unwrap();
        let mut came = vec![0; sent.len()];
        stream.read_exact(&mut came).unwrap();
        assert!(came == sent);
    }
}

#[test]
fn another_server_is_refused_and_both_fingerprints_are_named() {
    let identity = Identity::generate().unwrap();
    let came = identity.fingerprint().to_string();
    let socket = serve_once(move |socket| {
        assert!(accept_tls(socket, &identity).is_err(), "the client goes away");
    });
    let error = Secured::connect(socket, Fingerprint([7; 32])).err().unwrap().to_string();
    assert!(error.contains(&came) && error.contains(&"07".repeat(32)), "{error}");
}

#[test]
fn a_changed_record_is_noticed() {
    let identity = Identity::generate().unwrap();
    let pinned = identity.fingerprint();
    let socket = serve_once(move |socket| {
        let mut behind = socket.try_clone().unwrap();
        let (stream, _) = accept_tls(socket, &identity).unwrap();
        // A record of 32 bytes that nobody sealed.
        behind.write_all(&[0x17, 3, 3, 0, 32]).and_then(|()| behind.write_all(&[9; 32])).unwrap();
        std::mem::forget(stream);
    });
    let (mut stream, _) = Secured::connect(socket, pinned).unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert!(matches!(InferenceError::from(error), InferenceError::Tampered(_)));
}

fn tiny_model() -> InferenceModel {
    let spec = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10).unwrap();
    let images = [Image::random(spec.draft().input, 1)];
    let weights = FloatWeights::random(&spec, 1);
    freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0
}

/// Grants one preparation, of which it tells the secret, and one classification.
fn serve_one_image(
    socket: TcpStream,
    identity: &Identity,
    model: &Arc<ServedModel>,
    told: &std::sync::mpsc::Sender<Seed>,
) {
    let (stream, binding) = accept_tls(socket, identity).unwrap();
    let choose = |_: &_| Ok((ModelName::new("tiny").unwrap(), Arc::clone(model)));
    let mut server = Server::accept_with(Connection::new(stream, Role::Server), choose, &binding).unwrap();
    let accept = || Reply::Accepted { ids: Vec::new() };
    assert!(matches!(server.next_request().unwrap(), Request::Prepare { count: 1, store: None }));
    server.reply(&accept()).unwrap();
    let prepared = server.prepare().unwrap();
    told.send(prepared.mask_seed()).unwrap();
    assert!(matches!(server.next_request().unwrap(), Request::Classify { count: 1 }));
    server.reply(&accept()).unwrap();
    server.classify_batch(vec![prepared]).unwrap();
}

/// A PNG of an image of three channels.
fn png(image: &Image) -> Vec<u8> {
    let (width, height) = (image.shape().width, image.shape().height);
    let pixel = |x: u32, y: u32| {
        let at = y as usize * width + x as usize;
        image::Rgb([0, 1, 2].map(|channel| image.pixels()[channel * width * height + at]))
    };
    let picture = image::RgbImage::from_fn(width as u32, height as u32, pixel);
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[test]
fn a_page_gets_logits_that_the_reference_allows() {
    let model = tiny_model();
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let identity = Identity::generate().unwrap();
    let wanted =
        Wanted { fingerprint: identity.fingerprint().to_string(), model: String::new(), is_near: true };
    let (told, _seeds) = std::sync::mpsc::channel();
    let socket = serve_once(move |socket| serve_one_image(socket, &identity, &served, &told));
    let (told, layers) = std::sync::mpsc::channel();
    let tell = move |progress: inference::client::Progress<'_>| told.send(progress.layer.to_owned()).unwrap();
    let mut session = Session::connect(socket, &wanted, tell).unwrap();
    let connected = session.connected();
    assert_eq!((connected.model.as_str(), connected.classes, connected.input), ("tiny", 10, [3, 8, 8]));
    let prepared = session.prepare().unwrap();
    assert_eq!(prepared.bytes_up + prepared.bytes_down, connected.offline_bytes);
    assert_eq!(layers.try_iter().count(), connected.layers);
    assert_eq!(session.look(b"no image").unwrap_err().kind(), "image");
    assert_eq!(session.classify().unwrap_err().kind(), "image");
    let image = Image::random(model.outline().input, 7);
    assert_eq!(session.look(&png(&image)).unwrap().pixels, image.pixels());
    let classified = session.classify().unwrap();
    let counted = classified.counted;
    assert_eq!(counted.bytes_up + counted.bytes_down, connected.online_bytes);
    let logits = classified.logits.unwrap();
    assert!(bound::allows(&model, &image, &logits, ReluRounding::Stochastic).unwrap(), "{logits:?}");
}

#[test]
fn logits_equal_the_reference_with_both_parties_shares_bit_for_bit() {
    let model = tiny_model();
    for (round, relus) in [(0, ReluRounding::Stochastic), (1, ReluRounding::Nearest)] {
        let terms = Terms { reveal: Reveal::Logits, relus };
        let served = Arc::new(ServedModel::new(&model, terms, WeightMemory::Everything).unwrap());
        let plan = Arc::clone(served.plan());
        let identity = Identity::generate().unwrap();
        let fingerprint = identity.fingerprint().to_string();
        let (told, seeds) = std::sync::mpsc::channel();
        let socket = serve_once(move |socket| serve_one_image(socket, &identity, &served, &told));
        let wanted = Wanted { fingerprint, model: String::new(), is_near: round == 0 };
        let mut session = Session::connect(socket, &wanted, |_| {}).unwrap();
        let record = session.prepare_recorded().unwrap();
        let blinds: Vec<u64> = record.share(ValueId::IMAGE).to_vec();
        let image = Image::random(model.outline().input, 30 + round);
        session.look(&png(&image)).unwrap();
        let classified = session.classify().unwrap();
        let coins = ProtocolCoins::new(&model, &plan, record, &seeds.recv().unwrap()).unwrap();
        assert_eq!(classified.logits.unwrap(), reference::run_with(&model, &image, &coins).unwrap());
        // What the page shows as the server's view is the other share of the picture.
        let view = classified.server_view.unwrap();
        assert_eq!(view.bits, plan.image_width().bits());
        let pixels = model.outline().image.encode(&image);
        let mask = (1 << view.bits) - 1;
        for ((seen, blind), pixel) in view.values.iter().zip(&blinds).zip(pixels) {
            assert_eq!(seen.wrapping_add(*blind) & mask, pixel as u64 & mask);
        }
    }
}

#[test]
fn a_page_that_comes_back_has_the_halves_of_the_same_server_alone() {
    // With one salt both servers' halves have one name.
    let model = tiny_model();
    let served = ServedModel::with_salt(&model, Reveal::Logits, WeightMemory::Everything, &[7; 32]);
    let served = Arc::new(served.unwrap());
    let offline_bytes = |seed: u8| {
        let identity = Identity::from_seed(&Secret::new([seed; 32])).unwrap();
        let wanted =
            Wanted { fingerprint: identity.fingerprint().to_string(), model: String::new(), is_near: true };
        let (told, _seeds) = std::sync::mpsc::channel();
        let served = Arc::clone(&served);
        let socket = serve_once(move |socket| serve_one_image(socket, &identity, &served, &told));
        let mut session = Session::connect(socket, &wanted, |_| {}).unwrap();
        let bytes = session.connected().offline_bytes;
        session.look(&png(&Image::random(model.outline().input, 1))).unwrap();
        session.classify().unwrap();
        bytes
    };
    let first = offline_bytes(1);
    assert!(offline_bytes(1) < first, "it has them");
    assert_eq!(offline_bytes(2), first, "another server");
}
