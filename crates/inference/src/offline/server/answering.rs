//! Answers under encryption, computed on a thread of their own while later requests arrive and earlier answers leave.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crypto::he::{
    AnswerSecrets, Halves, LayerSecrets, LinearAnswer, LinearRequest, PreparedWeights, PublicKey, TileInputs,
    WeightScratch,
};
use crypto::secret::Secret;

use crate::InferenceError;
use crate::clock::Instant;
use crate::plan::JobId;
use crate::server::ServedModel;
use crate::turns::{Computing, Turns};
use crate::workers::Workers;

/// An encoded answer, the mask that the server keeps, and the time it took.
type Answered = (Vec<u8>, Secret<Vec<u64>>, Duration);

/// A request and all that its answer takes.
pub(super) struct Asked {
    pub(super) job: JobId,
    pub(super) bytes: Vec<u8>,
    pub(super) key: Arc<PublicKey>,
    pub(super) layer: LayerSecrets,
    pub(super) secrets: AnswerSecrets,
}

/// The thread that answers.
pub(super) struct Answering {
    requests: Option<Sender<Asked>>,
    answers: Receiver<Result<Answered, InferenceError>>,
    /// Nobody waits for what is still to be answered.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    pub(super) fn start(
        model: Arc<ServedModel>,
        halves: Halves,
        workers: Arc<Workers>,
        turns: Option<Arc<dyn Turns>>,
    ) -> Result<Self, InferenceError> {
        let (requests, to_compute) = channel::<Asked>();
        let (to_send, answers) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let is_told_to_stop = Arc::clone(&is_over);
        let compute = move || {
            for asked in to_compute {
                let computing = Computing::begin(turns.as_ref());
                if is_told_to_stop.load(Ordering::Acquire) {
                    return;
                }
                let answered = answer(&model, halves, &workers, &asked);
                drop(computing);
                // Whoever no longer listens has found the connection broken, and says so.
                if to_send.send(answered).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().spawn(compute).map_err(InferenceError::Thread)?;
        Ok(Self { requests: Some(requests), answers, is_over, thread: Some(thread) })
    }

    /// Hands over a request. A thread that ended says why when its answer is asked for.
    pub(super) fn ask(&mut self, asked: Asked) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(asked);
        }
    }

    /// The answer to the oldest request.
    pub(super) fn next(&mut self) -> Result<Answered, InferenceError> {
        match self.answers.recv() {
            Ok(answered) => answered,
            Err(_) => resume_unwind(
                self.end().expect_err("a thread that was asked ends before its answer only by a panic"),
            ),
        }
    }

    fn end(&mut self) -> thread::Result<()> {
        self.requests = None;
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // A client that left in the middle has requests in the line; what is under way alone is finished.
        self.is_over.store(true, Ordering::Release);
        // A panic over there was told by `next`, or nobody waits for its answer.
        let _ = self.end();
    }
}

/// One layer's answer, block by block.
fn answer(
    model: &ServedModel,
    halves: Halves,
    workers: &Workers,
    Asked { job, bytes, key, layer, secrets }: &Asked,
) -> Result<Answered, InferenceError> {
    let start = Instant::now();
    let weights: &PreparedWeights = model.encrypted_weights(*job);
    let layout = weights.layout();
    let request = LinearRequest::from_bytes(layout, bytes)?;
    let mut blocks = Vec::with_capacity(layout.blocks());
    for tile in 0..layout.tiles() {
        let inputs = TileInputs::expand(layout, layer, &request, tile, halves);
        // A scratch serves one thread, so each gets a run of neighboring blocks.
        let numbers: Vec<_> = layout.tile_blocks(tile).collect();
        let runs = numbers.chunks(numbers.len().div_ceil(workers.threads()).max(1)).collect();
        let answered = workers.divide(runs, |run: &[usize]| {
            let mut scratch = WeightScratch::default();
            let secrets = (layer, secrets);
            let block = |block: &usize| weights.answer_block(key, &inputs, secrets, *block, &mut scratch);
            Ok::<_, InferenceError>(run.iter().map(block).collect::<Vec<_>>())
        })?;
        blocks.extend(answered.into_iter().flatten());
    }
    let (answer, mask) = LinearAnswer::assemble(layout, blocks)?;
    Ok((answer.to_bytes(), mask, start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use crypto::random::{InferenceId, Seed, SessionId};
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::weights::FloatWeights;
    use network::zoo;

    use crate::offline::server::answer_scope;
    use crate::plan::Reveal;
    use crate::server::WeightMemory;

    /// Tells of each turn that is asked for, and gives it when the test does.
    #[derive(Debug)]
    struct Gate {
        asked: Sender<()>,
        given: Mutex<Receiver<()>>,
    }

    impl Turns for Gate {
        fn begin(&self) {
            self.asked.send(()).unwrap();
            let _ = self.given.lock().unwrap().recv();
        }

        fn end(&self) {}
    }

    #[test]
    fn nothing_more_is_computed_for_a_client_that_left() {
        let spec = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10).unwrap();
        let (weights, images) = (FloatWeights::random(&spec, 1), [Image::random(spec.draft().input, 1)]);
        let model = freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0;
        let model = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
        let ((asked, is_asked), (give, given)) = (channel(), channel());
        let turns: Arc<dyn Turns> = Arc::new(Gate { asked, given: Mutex::new(given) });
        let workers = Arc::new(Workers::alone());
        let mut answering = Answering::start(Arc::clone(&model), Halves::Both, workers, Some(turns)).unwrap();
        let (job, planned) = (JobId(0), model.plan().job(JobId(0)));
        let parameters = &model.plan().parameters()[planned.group];
        let no_key = vec![0; PublicKey::length(parameters)];
        let key = Arc::new(PublicKey::from_bytes(parameters, model.public_seed(), &no_key).unwrap());
        let scope = answer_scope(SessionId([1; 32]), InferenceId([1; 16]), planned.step);
        for _ in 0..3 {
            answering.ask(Asked {
                job,
                bytes: Vec::new(),
                key: Arc::clone(&key),
                layer: model.layer_secrets(scope.step),
                secrets: AnswerSecrets::derive(&Seed::from_bytes([1; 32]), &scope),
            });
        }
        is_asked.recv().unwrap();
        let is_over = Arc::clone(&answering.is_over);
        let leaving = thread::spawn(move || drop(answering));
        while !is_over.load(Ordering::Acquire) {
            thread::yield_now();
        }
        drop(give);
        leaving.join().unwrap();
        assert_eq!(is_asked.iter().count(), 0, "the other two took no turn");
    }
}
