//! `sordino doctor`: what this machine has, and what that means for speed.

mod measure;

use std::io::Write;

use clap::Args;
use crypto::cpu::CpuFeatures;
use serde::Serialize;

use super::rates::KnownRates;
use super::{Answer, trainer, write_json};
use crate::report::path_text;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Measure for some seconds what each kind of work of private inference takes here, and keep it: predicted times are
    /// then this machine's.
    #[arg(long)]
    measure: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Diagnosis {
    version: &'static str,
    architecture: &'static str,
    processor: Option<String>,
    threads: usize,
    memory_bytes: Option<u64>,
    features: Vec<Feature>,
    /// What predicted times follow from.
    rates: KnownRates,
    /// Whether the trainer was built in.
    training: bool,
    /// Whether it can use a GPU; absent without the trainer.
    gpu: Option<bool>,
}

#[derive(Serialize)]
struct Feature {
    name: &'static str,
    used_for: &'static str,
    detected: bool,
    enabled: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if arguments.measure {
        let path = measure::measure()?.save()?;
        let _ = writeln!(std::io::stderr(), "rates of this machine are in {}", path_text(&path));
    }
    let diagnosis = Diagnosis::of_this_machine();
    if arguments.json {
        return write_json(out, &diagnosis);
    }
    writeln!(out, "sordino {} on {}", diagnosis.version, diagnosis.architecture)?;
    writeln!(out, "processor  {}", diagnosis.processor.as_deref().unwrap_or("unknown"))?;
    writeln!(out, "threads    {}", diagnosis.threads)?;
    match diagnosis.memory_bytes {
        Some(bytes) => writeln!(out, "memory     {:.1} GiB", bytes as f64 / f64::from(1 << 30))?,
        None => writeln!(out, "memory     unknown")?,
    }
    let training = match diagnosis.gpu {
        None => "not built in: scripts/libtorch && cargo install --path crates/sordino --features training",
        Some(true) => "built in; a GPU can be used (--device cuda)",
        Some(false) => {
            "built in; no GPU that it can use: it trains on the processor (an NVIDIA driver and libtorch with CUDA are \
             needed: SORDINO_TORCH=installed scripts/libtorch)"
        }
    };
    writeln!(out, "training   {training}")?;
    writeln!(out, "predicted times are those of: {}", diagnosis.rates.processor)?;
    writeln!(out)?;
    for feature in &diagnosis.features {
        let state = match (feature.detected, feature.enabled) {
            (true, true) => "yes",
            (true, false) => "switched off by SORDINO_CPU",
            (false, _) => "no: the portable path is used",
        };
        writeln!(out, "{:<8} {:<44} {state}", feature.name, feature.used_for)?;
    }
    Ok(Answer::Yes)
}

impl Diagnosis {
    fn of_this_machine() -> Self {
        let (detected, enabled) = (CpuFeatures::detect(), CpuFeatures::available());
        let feature = |name, used_for, of: fn(&CpuFeatures) -> bool| Feature {
            name,
            used_for,
            detected: of(&detected),
            enabled: of(&enabled),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            architecture: std::env::consts::ARCH,
            processor: processor(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: first_value("/proc/meminfo", "MemTotal").and_then(|text| kibibytes(&text)),
            features: vec![
                feature("aes", "garbling and oblivious transfer", |features| features.aes),
                feature("vaes", "the same, four blocks at a time", |features| features.vaes512),
                feature("avx2", "convolutions on shares", |features| features.avx2),
                feature("avx512", "convolutions on shares, twice as wide", |features| features.avx512),
                feature("ifma", "encrypted linear layers", |features| features.ifma),
                feature("vnni", "convolutions on shares by bytes", |features| features.vnni),
            ],
            rates: KnownRates::load(),
            training: trainer::has_gpu().is_some(),
            gpu: trainer::has_gpu(),
        }
    }
}

/// What this machine calls its processor. Virtual machines leave out which one it is; its family and model tell.
pub(super) fn processor() -> Option<String> {
    let value = |key| first_value("/proc/cpuinfo", key);
    let name = value("model name")?;
    Some(match (value("cpu family"), value("model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    })
}

/// The value after `key :` in a file of such lines, as Linux writes them.
fn first_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes() {
        assert_eq!(kibibytes("24576 kB"), Some(24576 * 1024));
        assert_eq!(kibibytes("many"), None);
    }
}
