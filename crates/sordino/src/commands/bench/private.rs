//! `sordino bench private`: the client's process, which starts the server's.

mod report;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;
use crypto::random::Seed;
use inference::client::{Answer as Learned, Client, ShareRecord, Wishes};
use inference::connection::{Connection, Fingerprint, Role, TlsStream, connect_tls};
use inference::plan::{Plan, Reveal};
use inference::verify::ProtocolCoins;
use network::digest::from_hex;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use service::settings::ReluMode;

use report::Report;

use super::party::{Measured, cpu_seconds};
use super::relay::relay;
use crate::commands::link::Link;
use crate::commands::model::{ModelArguments, Origin, trial_image};
use crate::commands::progress::OfflineProgress;
use crate::commands::servant::Servant;
use crate::commands::trial::{digest, note_timing};
use crate::commands::{Answer, write_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The link between the parties: loopback, lan, wan, or such as 1gbps,20ms.
    #[arg(long, default_value = "loopback")]
    link: Link,
    /// Inferences to run; the one with the median online time is reported.
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    repeat: usize,
    /// Images that share the round trips of each inference.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    batch: usize,
    /// Let the client learn the class alone.
    #[arg(long)]
    class_only: bool,
    /// How ReLUs are computed.
    #[arg(long, value_enum, default_value = "fast")]
    relu: ReluMode,
    /// Bytes that the server's transformed weights may take [default: as many as they need].
    #[arg(long, value_name = "BYTES")]
    weight_memory: Option<usize>,
    /// Threads of each party.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    threads: NonZeroUsize,
    /// Add what was measured to the record of the run that the model was frozen from: its folder, record.json or
    /// records.json. A network with random weights is noted as such, where the trained ones were not measured.
    #[arg(long, value_name = "RECORD")]
    record: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One inference as the client saw it.
struct Run<O = Outcome> {
    offline_wall_s: f64,
    online_wall_s: f64,
    offline_cpu_s: f64,
    online_cpu_s: f64,
    images: Vec<O>,
}

/// What the client learned of one image, and its shares.
struct Answered {
    answer: Learned,
    image: Image,
    record: ShareRecord,
}

/// What the client learned of one image, and what it should have.
struct Outcome {
    answer: Learned,
    expected: Vec<i64>,
    plain: Vec<i64>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    ensure!(arguments.repeat > 0 && arguments.batch > 0, "--repeat and --batch must be at least 1");
    ensure!(
        arguments.record.is_none() || arguments.batch == 1,
        "--record notes one image at a time; leave --batch out"
    );
    let (model, _) = arguments.model.load_or_freeze()?;
    let mut server = ServerProcess::start(arguments, &model)?;
    let address = match arguments.link {
        Link::LOOPBACK => server.address,
        link => relay(link, server.address)?,
    };
    let (stream, binding) = connect_tls(TcpStream::connect(address)?, server.fingerprint)?;
    let reveal = if arguments.class_only { Reveal::Class } else { Reveal::Logits };
    let wishes = Wishes {
        reveal: Some(reveal),
        depth: Some(arguments.link.depth()),
        max_memory: u64::MAX,
        ..Wishes::default()
    };
    let mut client = Client::connect_with(Connection::new(stream, Role::Client), &wishes, &binding)?;
    client.use_threads(arguments.threads)?;
    let progress = OfflineProgress::start(client.plan(), arguments.repeat * arguments.batch);
    client.watch(progress.watcher());
    let mut runs = Vec::new();
    for number in 0..arguments.repeat {
        runs.push(one_inference(&mut client, &model, number as u64, arguments.batch)?);
    }
    progress.finish();
    let measured = server.finish()?;
    let runs = judge(&model, client.plan(), runs, &measured.mask_seeds)?;
    let report = Report::new(arguments, &model, &client, &runs, &measured);
    if let Some(record) = &arguments.record {
        ensure!(report.matches_reference, "the answers were wrong, so their times are not noted");
        let has_random_weights = matches!(arguments.model.origin(), Origin::Random { .. });
        note_timing(record, &model, report.timing(digest(&model), has_random_weights))?;
    }
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out)?;
    }
    Ok(if report.matches_reference { Answer::Yes } else { Answer::No })
}

/// Prepares and classifies one batch.
fn one_inference(
    client: &mut Client<TlsStream>,
    model: &InferenceModel,
    number: u64,
    batch: usize,
) -> anyhow::Result<Run<Answered>> {
    let images: Vec<_> =
        (0..batch as u64).map(|image| trial_image(model, number * batch as u64 + image)).collect();
    let (start, before) = (Instant::now(), cpu_seconds());
    let mut prepared = images
        .iter()
        .map(|image| Ok((client.prepare_recorded()?, image)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (offline_wall_s, offline_cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
    let records: Option<Vec<_>> = prepared.iter_mut().map(|(prepared, _)| prepared.take_record()).collect();
    let records = records.context("the shares were recorded")?;
    let (start, before) = (Instant::now(), cpu_seconds());
    let answers = client.classify_batch(prepared)?;
    let (online_wall_s, online_cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
    let answered = |((answer, image), record)| Answered { answer, image, record };
    let images = answers.into_iter().zip(images).zip(records).map(answered).collect();
    Ok(Run { offline_wall_s, online_wall_s, offline_cpu_s, online_cpu_s, images })
}

/// Holds every answer against the reference that is given the secrets of both parties.
fn judge(
    model: &InferenceModel,
    plan: &Plan,
    runs: Vec<Run<Answered>>,
    mask_seeds: &[String],
) -> anyhow::Result<Vec<Run>> {
    let mut seeds = mask_seeds.iter();
    let mut outcome = |answered: Answered| {
        let seed = seeds.next().context("the server told the seeds of its masks")?;
        let seed = Seed::from_bytes(from_hex(seed).context("the seed of a mask")?);
        let coins = ProtocolCoins::new(model, plan, answered.record, &seed)?;
        let expected = reference::run_with(model, &answered.image, &coins)?;
        Ok(Outcome { answer: answered.answer, expected, plain: reference::run(model, &answered.image)? })
    };
    let mut judged = Vec::new();
    for Run { offline_wall_s, online_wall_s, offline_cpu_s, online_cpu_s, images } in runs {
        let images = images.into_iter().map(&mut outcome).collect::<anyhow::Result<_>>()?;
        judged.push(Run { offline_wall_s, online_wall_s, offline_cpu_s, online_cpu_s, images });
    }
    Ok(judged)
}

/// Writes a model where only the other process finds it. Whoever calls this removes it as soon as that has read it.
pub(super) fn write_model(model: &InferenceModel, servant: &Servant) -> anyhow::Result<PathBuf> {
    // The folder is closed to everybody else.
    let path = servant.folder().join("model.sordino");
    model.save(&path)?;
    Ok(path)
}

struct ServerProcess {
    servant: Servant,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
    fingerprint: Fingerprint,
}

impl ServerProcess {
    fn start(arguments: &Arguments, model: &InferenceModel) -> anyhow::Result<Self> {
        let servant = Servant::new("sordino-bench-")?;
        let model = write_model(model, &servant)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "server"]).arg(&model);
        command.arg("--inferences").arg(arguments.repeat.to_string());
        command.arg("--threads").arg(arguments.threads.to_string());
        command.arg("--batch").arg(arguments.batch.to_string());
        if arguments.class_only {
            command.arg("--class-only");
        }
        if arguments.relu == ReluMode::Exact {
            command.args(["--relu", "exact"]);
        }
        if let Some(bytes) = arguments.weight_memory {
            command.arg("--weight-memory").arg(bytes.to_string());
        }
        servant.start(command.stdout(Stdio::piped()))?;
        let output = servant.with_child(|child| child.stdout.take())?;
        let output = output.context("the server's output was piped")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let Some((address, fingerprint)) = line.trim().split_once(' ') else {
            bail!("the server's process ended before it was ready");
        };
        std::fs::remove_file(&model)?;
        Ok(Self { servant, address: address.parse()?, fingerprint: fingerprint.parse()?, output })
    }

    fn finish(&mut self) -> anyhow::Result<Measured> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let mut child = self.servant.take_child().context("the server's process runs")?;
        ensure!(child.wait()?.success(), "the server's process failed");
        Ok(serde_json::from_str(&text)?)
    }
}

impl Outcome {
    fn matches_reference(&self) -> bool {
        match &self.answer {
            Learned::Logits(logits) => *logits == self.expected,
            // The class comes from the unrounded logits, so equal rounded ones may hide the larger.
            Learned::Class(class) => {
                let best = self.expected.iter().max();
                self.expected.get(*class).is_some_and(|logit| best.is_some_and(|best| logit + 1 >= *best))
            }
        }
    }
}
