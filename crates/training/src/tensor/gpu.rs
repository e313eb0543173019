//! Loading the CUDA half of libtorch and the shim, where there is a GPU.
//!
//! The binary links to libtorch's CPU half only. If the driver's library is there, `libtorch_cuda.so` is loaded from
//! beside the CPU half before anything asks libtorch for GPUs, and then the shim, which lies inside the binary.
#![allow(unsafe_code, reason = "the border to libtorch")]

use std::ffi::{CStr, c_char, c_double, c_int, c_void};
use std::fs;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};

use super::Tensor;

/// The compiled `shim/gpu.cpp`; empty where it was built without CUDA's headers.
static SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gpu.so"));

static GPU: OnceLock<Result<Gpu, String>> = OnceLock::new();

type Message = *mut c_char;
pub(super) type GraphFunction = Symbol<unsafe extern "C" fn(*mut c_void) -> Message>;

/// The functions of the shim.
pub(super) struct Gpu {
    free: Symbol<unsafe extern "C" fn(Message)>,
    pub(super) graph_new: Symbol<unsafe extern "C" fn(*mut *mut c_void) -> Message>,
    pub(super) graph_delete: Symbol<unsafe extern "C" fn(*mut c_void)>,
    pub(super) graph_enter: GraphFunction,
    pub(super) graph_leave: GraphFunction,
    pub(super) graph_begin: GraphFunction,
    pub(super) graph_end: GraphFunction,
    pub(super) graph_replay: GraphFunction,
    pub(super) lane_new: Symbol<unsafe extern "C" fn(*mut *mut c_void) -> Message>,
    pub(super) lane_delete: Symbol<unsafe extern "C" fn(*mut c_void)>,
    pub(super) lane_enter: GraphFunction,
    pub(super) lane_leave: GraphFunction,
    pub(super) lane_join: GraphFunction,
    own_stream: Symbol<unsafe extern "C" fn() -> Message>,
    sgd: Symbol<SgdStep>,
    adam: Symbol<AdamStep>,
    _libraries: Vec<Library>,
}

type TensorPointer = *const c_void;
type SgdStep = unsafe extern "C" fn(
    TensorPointer,
    TensorPointer,
    TensorPointer,
    TensorPointer,
    c_double,
    c_double,
    c_int,
) -> Message;
type AdamStep = unsafe extern "C" fn(
    TensorPointer,
    TensorPointer,
    TensorPointer,
    TensorPointer,
    TensorPointer,
    TensorPointer,
    c_double,
    c_double,
    c_double,
    c_double,
) -> Message;

/// Loads what a GPU needs, once; whether it is there.
pub(super) fn load() -> bool {
    shim().is_some()
}

/// The shim, where there is a GPU.
pub(super) fn shim() -> Option<&'static Gpu> {
    GPU.get_or_init(open).as_ref().ok()
}

/// Why no GPU can be used.
pub(super) fn missing() -> String {
    match GPU.get_or_init(open) {
        Ok(_) => "the driver reports none".to_owned(),
        Err(reason) => reason.clone(),
    }
}

fn open() -> Result<Gpu, String> {
    let driver =
        library("libcuda.so.1".into()).map_err(|_| "this machine has no NVIDIA driver".to_owned())?;
    if SHIM.is_empty() {
        return Err(
            "this binary was built without CUDA's headers; run scripts/libtorch and build again".to_owned()
        );
    }
    let cuda = match libtorch_folder() {
        Some(folder) => {
            library(folder.join("libtorch_cuda.so")).or_else(|_| library("libtorch_cuda.so".into()))
        }
        None => library("libtorch_cuda.so".into()),
    };
    let cuda = cuda.map_err(|reason| {
        format!("the CUDA half of libtorch cannot be loaded ({reason}); put the lib folder of PyTorch 2.11 into LD_LIBRARY_PATH")
    })?;
    let shim = load_carried(SHIM).map_err(|reason| format!("the GPU shim cannot be loaded ({reason})"))?;
    Gpu::new(shim, vec![cuda, driver]).map_err(|reason| format!("the GPU shim lacks a function ({reason})"))
}

/// A library whose symbols later ones may use.
fn library(path: PathBuf) -> Result<Library, libloading::Error> {
    // SAFETY: these libraries run initializers made for being loaded at any time; they are kept until the end.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
}

/// Where the CPU half of libtorch was loaded from.
fn libtorch_folder() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("/libtorch_cpu.so"))?;
    let path = PathBuf::from(&line[line.find('/')?..]);
    path.parent().map(PathBuf::from)
}

/// A shim goes through a file without a name: nothing is left on disk.
pub(super) fn load_carried(shim: &[u8]) -> Result<Library, String> {
    let file = rustix::fs::memfd_create("sordino-shim", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = fs::File::from(file.map_err(|error| error.to_string())?);
    file.write_all(shim).and_then(|()| file.rewind()).map_err(|error| error.to_string())?;
    library(format!("/proc/self/fd/{}", file.as_raw_fd()).into()).map_err(|error| error.to_string())
}

impl Gpu {
    fn new(shim: Library, mut libraries: Vec<Library>) -> Result<Self, libloading::Error> {
        // SAFETY: names and types are those of shim/gpu.cpp, which was compiled from the same tree.
        let gpu = unsafe {
            Self {
                free: shim.get(b"sordino_free\0")?,
                graph_new: shim.get(b"sordino_graph_new\0")?,
                graph_delete: shim.get(b"sordino_graph_delete\0")?,
                graph_enter: shim.get(b"sordino_graph_enter\0")?,
                graph_leave: shim.get(b"sordino_graph_leave\0")?,
                graph_begin: shim.get(b"sordino_graph_begin\0")?,
                graph_end: shim.get(b"sordino_graph_end\0")?,
                graph_replay: shim.get(b"sordino_graph_replay\0")?,
                lane_new: shim.get(b"sordino_lane_new\0")?,
                lane_delete: shim.get(b"sordino_lane_delete\0")?,
                lane_enter: shim.get(b"sordino_lane_enter\0")?,
                lane_leave: shim.get(b"sordino_lane_leave\0")?,
                lane_join: shim.get(b"sordino_lane_join\0")?,
                own_stream: shim.get(b"sordino_own_stream\0")?,
                sgd: shim.get(b"sordino_sgd\0")?,
                adam: shim.get(b"sordino_adam\0")?,
                _libraries: Vec::new(),
            }
        };
        libraries.insert(0, shim);
        Ok(Self { _libraries: libraries, ..gpu })
    }

    /// Turns the shim's answer into a result.
    pub(super) fn check(&self, message: Message) -> Result<(), String> {
        if message.is_null() {
            return Ok(());
        }
        // SAFETY: the shim answers with a string it made by strdup, which is freed here and nowhere else.
        let words = unsafe {
            let words = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.free)(message);
            words
        };
        Err(words)
    }
}

/// Gives the calling thread a queue of its own on the GPU, where there is one.
pub(super) fn own_stream() -> Result<(), String> {
    let Some(gpu) = shim() else { return Ok(()) };
    // SAFETY: the shim sets a property of this thread and keeps nothing.
    gpu.check(unsafe { (gpu.own_stream)() })
}

/// One step of SGD as one kernel: `velocity = momentum * velocity + gradient + decay * weights`, then `weights` down
/// it. The tensors are weights, gradient, velocity and rate. Whether it was done: without a GPU it is not.
pub(crate) fn fused_sgd(tensors: [&Tensor; 4], decay: f64, momentum: f64, nesterov: bool) -> bool {
    fused(tensors, |gpu, [weights, gradient, velocity, rate]| {
        // SAFETY: the pointers are those of live tensors, as `fused` promises, and the shim keeps none.
        unsafe { (gpu.sgd)(weights, gradient, velocity, rate, decay, momentum, nesterov.into()) }
    })
}

/// One step of Adam as one kernel. The tensors are weights, gradient, first and second moment, steps and rate. Whether it
/// was done: without a GPU it is not.
pub(crate) fn fused_adam(tensors: [&Tensor; 6], decay: f64, [beta1, beta2, epsilon]: [f64; 3]) -> bool {
    fused(tensors, |gpu, [weights, gradient, first, second, steps, rate]| {
        // SAFETY: as for `fused_sgd`.
        unsafe { (gpu.adam)(weights, gradient, first, second, steps, rate, decay, beta1, beta2, epsilon) }
    })
}

/// Takes a step where the first tensor, the weights, is on a GPU. The pointers it gets live as long as the step.
fn fused<const COUNT: usize>(
    tensors: [&Tensor; COUNT],
    step: impl FnOnce(&Gpu, [TensorPointer; COUNT]) -> Message,
) -> bool {
    let Some(gpu) = shim().filter(|_| tensors[0].device().is_cuda()) else { return false };
    let answer = step(gpu, tensors.map(|tensor| tensor.as_ptr().cast::<c_void>()));
    gpu.check(answer).unwrap_or_else(|words| panic!("{words}"));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shim_is_carried_as_a_shared_object() {
        assert!(SHIM.is_empty() || SHIM.starts_with(b"\x7fELF"));
    }

    #[test]
    fn a_machine_without_a_gpu_says_why() {
        if !load() {
            assert!(!missing().is_empty());
        }
    }

    #[test]
    fn libtorch_is_found_where_it_was_loaded() {
        let _ = crate::tensor::Device::Cpu.zeros(&[1], crate::tensor::Kind::Float);
        assert!(libtorch_folder().unwrap().join("libtorch_cpu.so").exists());
    }
}
