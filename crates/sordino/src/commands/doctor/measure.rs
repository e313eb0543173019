//! What a unit of each kind of work takes here: sessions of small networks, both parties in this process over TLS.
//!
//! ```text
//! tall    many pixels, few channels     transfers of both depths, gates, truncation, multiply-adds
//! exact   the same, ReLUs to nearest    garbled tables
//! deep    few pixels, many channels     products of weights and ciphertexts
//! ```
//!
//! Both parties note how long they work on what. Of some repeats the fastest counts, kind by kind: what else the machine
//! does only makes things slower. What no kind explains of the online phase is the bytes'.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use client::{PartyRates, Rates};
use inference::client::{Client, Wishes};
use inference::connection::{Connection, Fingerprint, Identity, Role, accept_tls, connect_tls};
use inference::plan::{Depth, PlannedWork, ReluRounding, Reveal, Terms};
use inference::server::{ServedModel, Server, WeightMemory};
use inference::transcript::{Phase, Transcript, Work};
use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::mask::ActivationMask;
use network::weights::FloatWeights;
use network::zoo;

use crate::commands::doctor::processor;
use crate::commands::rates::KnownRates;

const REPEATS: usize = 5;
const PHASES: [Phase; 2] = [Phase::Offline, Phase::Online];

/// Measures for some seconds.
pub(super) fn measure() -> anyhow::Result<KnownRates> {
    let tall = frozen("resnet18:m=16", 32, true)?;
    let deep = frozen("resnet18:m=32", 8, false)?;
    let fast = Terms::default();
    let exact = Terms { reveal: Reveal::Logits, relus: ReluRounding::Nearest };
    let samples = Samples {
        shallow: Sample::of(&tall, fast, Depth::Four)?,
        eight: Sample::of(&tall, fast, Depth::Eight)?,
        exact: Sample::of(&tall, exact, Depth::Four)?,
        deep: Sample::of(&deep, fast, Depth::Four)?,
    };
    let processor = processor().unwrap_or_else(|| "unknown processor".to_owned());
    Ok(KnownRates { processor, rates: samples.rates() })
}

/// A network with random weights, every other ReLU dropped where positions without one are wanted.
fn frozen(name: &str, resolution: usize, drops_half: bool) -> anyhow::Result<InferenceModel> {
    let spec = zoo::build(name, resolution, 10)?;
    let images = [Image::random(spec.draft().input, 1)];
    let weights = FloatWeights::random(&spec, 1);
    let kept = network::cost::Cost::of(&spec).relus / 2;
    let mask = drops_half.then(|| ActivationMask::random(&spec, kept, 1)).transpose()?;
    Ok(freeze(&spec, &weights, mask.as_ref(), &images, &FreezeOptions::default())?.0)
}

/// What one network took, at best.
struct Sample {
    work: PlannedWork,
    /// By party, phase and kind, in seconds.
    client: Times,
    server: Times,
    /// What the online phase took longer than both parties worked.
    unexplained: f64,
    online_bytes: f64,
}

type Times = [[f64; Work::ALL.len()]; 2];

impl Sample {
    fn of(model: &InferenceModel, terms: Terms, depth: Depth) -> anyhow::Result<Self> {
        let served = Arc::new(ServedModel::new(model, terms, WeightMemory::Everything)?);
        let work = served.plan().work();
        let traffic = served.plan().traffic(depth).online;
        let online_bytes = (traffic.bytes_up + traffic.bytes_down) as f64;
        let none = [[f64::INFINITY; Work::ALL.len()]; 2];
        let mut best = Self { work, client: none, server: none, unexplained: f64::INFINITY, online_bytes };
        let image = Image::random(model.outline().input, 2);
        for _ in 0..REPEATS {
            best.note(&one_session(&served, depth, &image)?);
        }
        Ok(best)
    }

    fn note(&mut self, (client, server, online): &(Transcript, Transcript, f64)) {
        let mut worked = 0.0;
        for (best, transcript) in [(&mut self.client, client), (&mut self.server, server)] {
            for (phase, best) in PHASES.into_iter().zip(best) {
                for (work, best) in Work::ALL.into_iter().zip(best) {
                    let time = transcript.work(phase, work).as_secs_f64();
                    *best = best.min(time);
                    worked += if phase == Phase::Online { time } else { 0.0 };
                }
            }
        }
        self.unexplained = self.unexplained.min((online - worked).max(0.0));
    }

    /// Seconds of a unit.
    fn rate(&self, times: &Times, phase: Phase, work: Work) -> f64 {
        match self.work.units(phase, work) {
            0 => 0.0,
            units => seconds(times, phase, work) / units as f64,
        }
    }
}

fn seconds(times: &Times, phase: Phase, work: Work) -> f64 {
    let kind = Work::ALL.iter().position(|kind| *kind == work).expect("all kinds are listed");
    times[usize::from(phase == Phase::Online)][kind]
}

struct Samples {
    shallow: Sample,
    eight: Sample,
    exact: Sample,
    deep: Sample,
}

impl Samples {
    fn rates(&self) -> Rates {
        let Self { shallow, eight, exact, deep } = self;
        let party = |of: fn(&Sample) -> &Times| {
            let mut rates = PartyRates::default();
            for (phase, rates) in PHASES.into_iter().zip([&mut rates.offline, &mut rates.online]) {
                let rate = |sample: &Sample, work| sample.rate(of(sample), phase, work);
                rates.ciphertexts = rate(shallow, Work::Homomorphic);
                rates.transfers_of_four = rate(shallow, Work::Transfer);
                rates.transfers_of_eight = rate(eight, Work::Transfer);
                rates.gates = rate(shallow, Work::Gates);
                rates.tables = rate(exact, Work::Garbling);
                rates.truncated = rate(shallow, Work::Truncation);
                rates.multiply_adds = rate(shallow, Work::Linear);
            }
            rates
        };
        let mut server = party(|sample| &sample.server);
        let encrypted = |sample: &Sample| {
            let units = [sample.work.ciphertexts as f64, sample.work.products as f64];
            (units, seconds(&sample.server, Phase::Offline, Work::Homomorphic))
        };
        [server.offline.ciphertexts, server.offline.products] = split(encrypted(shallow), encrypted(deep));
        Rates {
            client: party(|sample| &sample.client),
            server,
            byte: shallow.unexplained / shallow.online_bytes,
        }
    }
}

/// What two kinds of units take that two samples share. Where no positive rates explain both, the second kind's explain the
/// second sample alone, and the first kind's what is left of the first.
fn split(first: ([f64; 2], f64), second: ([f64; 2], f64)) -> [f64; 2] {
    let (([a, b], left), ([c, d], right)) = (first, second);
    let determinant = a * d - b * c;
    let solved = [(left * d - right * b) / determinant, (a * right - c * left) / determinant];
    if determinant != 0.0 && solved.iter().all(|rate| *rate >= 0.0) {
        return solved;
    }
    let product = right / d.max(1.0);
    [((left - product * b) / a.max(1.0)).max(0.0), product]
}

/// One inference in a session of its own: what both parties noted, and the seconds of its online phase.
fn one_session(
    served: &Arc<ServedModel>,
    depth: Depth,
    image: &Image,
) -> anyhow::Result<(Transcript, Transcript, f64)> {
    let identity = Identity::generate()?;
    let fingerprint = identity.fingerprint();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let served = Arc::clone(served);
    let server = thread::spawn(move || serve(&listener, &identity, served));
    let asked = ask(TcpStream::connect(address)?, fingerprint, depth, image);
    let server = server.join().map_err(|_| anyhow!("the server's thread panicked"))?;
    let (client, online) = asked?;
    Ok((client, server.context("the server failed")?, online))
}

fn serve(
    listener: &TcpListener,
    identity: &Identity,
    served: Arc<ServedModel>,
) -> anyhow::Result<Transcript> {
    let (stream, binding) = accept_tls(listener.accept()?.0, identity)?;
    let mut server = Server::accept(Connection::new(stream, Role::Server), served, &binding)?;
    let prepared = server.prepare()?;
    server.classify(prepared)?;
    Ok(server.connection().transcript().clone())
}

fn ask(
    socket: TcpStream,
    fingerprint: Fingerprint,
    depth: Depth,
    image: &Image,
) -> anyhow::Result<(Transcript, f64)> {
    let (stream, binding) = connect_tls(socket, fingerprint)?;
    let wishes = Wishes { depth: Some(depth), max_memory: u64::MAX, ..Wishes::default() };
    let mut client = Client::connect_with(Connection::new(stream, Role::Client), &wishes, &binding)?;
    let prepared = client.prepare()?;
    let start = Instant::now();
    client.classify(prepared, image)?;
    Ok((client.connection().transcript().clone(), start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_samples_tell_two_rates_apart() {
        let time = |units: [f64; 2]| (units, 3.0 * units[0] + 0.5 * units[1]);
        assert_eq!(split(time([10.0, 100.0]), time([2.0, 400.0])), [3.0, 0.5]);
        // The first took less than the second's products alone would explain.
        let rates = split(([10.0, 100.0], 40.0), ([2.0, 400.0], 200.0));
        assert_eq!(rates, [0.0, 0.5]);
    }
}
