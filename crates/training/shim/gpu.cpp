// What the trainer needs of libtorch on a GPU and `tch` does not reach: CUDA graphs, queues side by side, and optimizer
// steps as one kernel.
//
// A shared object of its own, because it needs libtorch's CUDA half, which machines without a GPU do not have. It is
// carried inside the binary and loaded where a GPU is. Every function answers a null pointer, or a message the caller
// frees with `sordino_free`.

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_sgd.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>

namespace {

// One step of training, recorded. Recording happens on a stream of its own, as CUDA demands.
struct Graph {
  at::cuda::CUDAGraph graph;
  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false);
  std::optional<c10::cuda::CUDAStream> previous;

  void enter() {
    c10::cuda::device_synchronize();
    previous = c10::cuda::getCurrentCUDAStream();
    c10::cuda::setCurrentCUDAStream(side);
  }

  void leave() {
    if (previous) {
      c10::cuda::setCurrentCUDAStream(*previous);
      previous.reset();
    }
    c10::cuda::device_synchronize();
  }
};

// A queue beside the thread's own. It begins after what the thread's queue holds, and the thread's queue waits for it
// only when the two are joined. Inside a recording it becomes a branch of the graph.
struct Lane {
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false);
  std::optional<c10::cuda::CUDAStream> previous;
  c10::cuda::CUDAEvent begins, ends;
};

template <typename Work>
char *guarded(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an unknown C++ exception");
  }
}

}  // namespace

extern "C" {

void sordino_free(char *message) { std::free(message); }

// Gives the calling thread a stream of its own, so that its work does not wait for that of other threads.
char *sordino_own_stream() {
  return guarded([] { c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false)); });
}

char *sordino_graph_new(Graph **made) {
  return guarded([&] { *made = new Graph(); });
}

void sordino_graph_delete(Graph *graph) {
  free(guarded([&] {
    c10::cuda::device_synchronize();
    delete graph;
  }));
}

// Warm-up steps run on the side stream too, so that what they allocate and choose fits the recording.
char *sordino_graph_enter(Graph *graph) {
  return guarded([&] { graph->enter(); });
}

char *sordino_graph_leave(Graph *graph) {
  return guarded([&] { graph->leave(); });
}

char *sordino_graph_begin(Graph *graph) {
  return guarded([&] {
    graph->enter();
    c10::cuda::CUDACachingAllocator::emptyCache();
    // What other threads do meanwhile is no part of the recording and does not spoil it.
    graph->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  });
}

char *sordino_graph_end(Graph *graph) {
  char *failure = guarded([&] { graph->graph.capture_end(); });
  char *second = guarded([&] { graph->leave(); });
  if (failure != nullptr) {
    std::free(second);
    return failure;
  }
  return second;
}

char *sordino_graph_replay(Graph *graph) {
  return guarded([&] { graph->graph.replay(); });
}

char *sordino_lane_new(Lane **made) {
  return guarded([&] { *made = new Lane(); });
}

void sordino_lane_delete(Lane *lane) {
  free(guarded([&] { delete lane; }));
}

// What the calling thread gives to the GPU goes to the lane from here on.
char *sordino_lane_enter(Lane *lane) {
  return guarded([&] {
    lane->previous = c10::cuda::getCurrentCUDAStream();
    lane->begins.record(*lane->previous);
    lane->begins.block(lane->stream);
    c10::cuda::setCurrentCUDAStream(lane->stream);
  });
}

// And from here on to the queue it went to before.
char *sordino_lane_leave(Lane *lane) {
  return guarded([&] {
    if (lane->previous) {
      c10::cuda::setCurrentCUDAStream(*lane->previous);
      lane->previous.reset();
    }
  });
}

// The thread's queue waits for the lane.
char *sordino_lane_join(Lane *lane) {
  return guarded([&] {
    lane->ends.record(lane->stream);
    lane->ends.block(c10::cuda::getCurrentCUDAStream());
  });
}

char *sordino_sgd(at::Tensor *weights, at::Tensor *gradient, at::Tensor *velocity, at::Tensor *rate, double decay,
                  double momentum, int nesterov) {
  return guarded([&] {
    at::_fused_sgd_({*weights}, {*gradient}, {*velocity}, decay, momentum, *rate, /*dampening=*/0.0, nesterov != 0,
                    /*maximize=*/false, /*is_first_step=*/false);
  });
}

char *sordino_adam(at::Tensor *weights, at::Tensor *gradient, at::Tensor *first, at::Tensor *second, at::Tensor *steps,
                   at::Tensor *rate, double decay, double beta1, double beta2, double epsilon) {
  return guarded([&] {
    at::_fused_adam_({*weights}, {*gradient}, {*first}, {*second}, {}, {*steps}, *rate, beta1, beta2, decay, epsilon,
                     /*amsgrad=*/false, /*maximize=*/false);
  });
}

}  // extern "C"
