// gloo's side of `cargo xtask bench --peers`: tests/bench/src/batches.rs over gloo's TCP transport, which is the only one it has.
// Arguments: SOCKET CORE..., a core for each rank; this program starts the other ranks itself.
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
using Clock = std::chrono::steady_clock;

enum { TOKEN_BYTES = 8, TOKEN_SLOT = 1000 };

struct Batch {
  char workload[32];
  int turns, each;
  size_t bytes;
};

static long long since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

static int mark(int number) { return (number & 0xFF) | 1; }

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("pin");
}

// Memory that begins with a page: where heaps put it decides how fast this and other machines copy.
template <typename T>
struct Pages {
  using value_type = T;
  Pages() = default;
  template <typename U> Pages(const Pages<U> &) {}
  T *allocate(size_t count) {
    void *memory = aligned_alloc(4096, (count * sizeof(T) + 4095) / 4096 * 4096);
    if (memory == nullptr) fail("aligned_alloc");
    return static_cast<T *>(memory);
  }
  void deallocate(T *memory, size_t) { free(memory); }
  bool operator==(const Pages &) const { return true; }
  bool operator!=(const Pages &) const { return false; }
};
template <typename T>
using Paged = std::vector<T, Pages<T>>;

// A rank and what it measures with.
struct Rank {
  std::shared_ptr<gloo::Context> context;
  int rank, size, other;
  Paged<char> out, in;
  Paged<double> sums;
  char token[TOKEN_BYTES] = {0};
  Buffer token_buffer;
  std::vector<Buffer> sends, receives;

  Rank(std::shared_ptr<gloo::Context> joined, int rank, int size)
      : context(joined), rank(rank), size(size), other(1 - rank) {
    token_buffer = context->createUnboundBuffer(token, TOKEN_BYTES);
  }

  void token_to() {
    token_buffer->send(other, TOKEN_SLOT + rank);
    token_buffer->waitSend();
  }

  void token_from() {
    token_buffer->recv(other, TOKEN_SLOT + other);
    token_buffer->waitRecv();
  }

  // The bytes of the block for a rank: half and one and a half times as many by turns where they are uneven.
  static size_t block(const Batch &batch, int number) {
    return number % 2 == 0 ? batch.bytes / 2 : batch.bytes + batch.bytes / 2;
  }

  // Buffers for `messages` messages; a buffer has one operation at a time.
  void prepare(const Batch &batch, int messages) {
    // Or for blocks, an uneven one of which has one and a half times the bytes at most.
    size_t len = batch.bytes * std::max(messages, 2 * size);
    if (out.size() < len + 8) out.resize(len + 8), in.resize(len + 8);
    std::memset(out.data(), rank + 1, out.size());
    sends.clear(), receives.clear();
    for (int i = 0; i < messages; i++) {
      sends.push_back(context->createUnboundBuffer(out.data() + i * batch.bytes, batch.bytes));
      receives.push_back(context->createUnboundBuffer(in.data() + i * batch.bytes, batch.bytes));
    }
    sums.assign(batch.bytes / 8, 1.0);
  }

  void start_sends() {
    for (size_t i = 0; i < sends.size(); i++) sends[i]->send(other, i);
  }

  void start_receives() {
    for (size_t i = 0; i < receives.size(); i++) receives[i]->recv(other, i);
  }

  void wait_sends() {
    for (auto &send : sends) send->waitSend();
  }

  void wait_receives() {
    for (auto &receive : receives) receive->waitRecv();
  }

  void push() {
    start_sends();
    wait_sends();
    token_from();
  }

  void take() {
    start_receives();
    wait_receives();
    token_to();
  }

  // A turn of an operation on blocks; tests/bench/src/bin/bench_aldis/blocks.rs says which is sent where. There is no communicator
  // in reversed order.
  void on_blocks(const Batch &batch, const std::string &workload, int number) {
    int root = number % size;
    Paged<char> &from = number % 2 == 0 ? out : in, &into = number % 2 == 0 ? in : out;
    if (workload == "gather") {
      gloo::GatherOptions options(context);
      options.setInput(out.data() + batch.bytes * root, batch.bytes);
      if (rank == root) options.setOutput(out.data(), batch.bytes * size);
      options.setRoot(root);
      gloo::gather(options);
    } else if (workload == "scatter") {
      gloo::ScatterOptions options(context);
      std::vector<char *> blocks;
      for (int i = 0; i < size && rank == root; i++) blocks.push_back(out.data() + batch.bytes * i);
      if (rank == root) options.setInputs(blocks, batch.bytes);
      options.setOutput(out.data() + batch.bytes * root, batch.bytes);
      options.setRoot(root);
      gloo::scatter(options);
    } else if (workload == "allgather") {
      gloo::AllgatherOptions options(context);
      options.setOutput(out.data(), batch.bytes * size);
      gloo::allgather(options);
    } else if (workload == "allgatherv") {
      gloo::AllgathervOptions options(context);
      std::vector<size_t> lens;
      for (int i = 0; i < size; i++) lens.push_back(block(batch, i));
      options.setOutput(out.data(), lens);
      gloo::allgatherv(options);
    } else if (workload == "alltoall") {
      gloo::AlltoallOptions options(context);
      options.setInput(from.data(), batch.bytes * size);
      options.setOutput(into.data(), batch.bytes * size);
      gloo::alltoall(options);
    } else if (workload == "alltoallv") {
      gloo::AlltoallvOptions options(context);
      std::vector<int64_t> lens;
      for (int i = 0; i < size; i++) lens.push_back(block(batch, i + rank));
      options.setInput(from.data(), lens);
      options.setOutput(into.data(), lens);
      gloo::alltoallv(options);
    } else {
      fail("an unknown workload");
    }
  }

  // One turn; the nanoseconds of its measured part, or 0 if all of it is.
  long long turn(const Batch &batch, const std::string &workload, int number) {
    if (workload == "latency") {
      if (rank == 0) start_sends(), wait_sends(), start_receives(), wait_receives();
      else start_receives(), wait_receives(), start_sends(), wait_sends();
    } else if (workload == "bandwidth") {
      if (rank != 0) {
        take();
        return 0;
      }
      std::memset(out.data(), mark(number), batch.bytes * batch.each);
      auto start = Clock::now();
      push();
      return since(start);
    } else if (workload == "rate") {
      if (rank == 0) push();
      else take();
    } else if (workload == "barrier") {
      gloo::BarrierOptions options(context);
      gloo::barrier(options);
    } else if (workload == "bcast") {
      gloo::BroadcastOptions options(context);
      options.setOutput(out.data(), batch.bytes);
      options.setRoot(number % size);
      gloo::broadcast(options);
    } else if (workload == "reduce") {
      gloo::ReduceOptions options(context);
      options.setOutput(sums.data(), sums.size());
      options.setRoot(number % size);
      void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<double>;
      options.setReduceFunction(sum);
      gloo::reduce(options);
    } else if (workload == "allreduce") {
      gloo::AllreduceOptions options(context);
      options.setOutput(sums.data(), sums.size());
      void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<double>;
      options.setReduceFunction(sum);
      gloo::allreduce(options);
    } else {
      on_blocks(batch, workload, number);
    }
    return 0;
  }

  long long run(const Batch &batch) {
    std::string workload = batch.workload;
    bool is_windowed = workload == "bandwidth" || workload == "rate";
    prepare(batch, is_windowed ? batch.each : 1);
    for (int i = 0; i < (batch.turns + 9) / 10; i++) turn(batch, workload, i);
    auto start = Clock::now();
    long long parts = 0;
    for (int i = 0; i < batch.turns; i++) parts += turn(batch, workload, i);
    return workload == "bandwidth" ? parts : since(start);
  }
};

static int serve(const char *path, int rank, int size, int core, const std::string &folder) {
  pin(core);
  gloo::transport::tcp::attr loopback;
  loopback.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(loopback);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);

  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
  FILE *commands = fdopen(fd, "r"), *answers = fdopen(dup(fd), "w");
  if (commands == NULL || answers == NULL) fail("fdopen");
  fprintf(answers, "ready %d\n", rank);
  fflush(answers);

  Rank measured(context, rank, size);
  char line[96];
  while (fgets(line, sizeof line, commands) != NULL) {
    Batch batch;
    if (sscanf(line, "go %31s %d %zu %d", batch.workload, &batch.turns, &batch.bytes, &batch.each) != 4)
      fail("not a batch");
    long long elapsed = measured.run(batch);
    if (rank == 0) {
      fprintf(answers, "%lld\n", elapsed);
      fflush(answers);
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: SOCKET CORE..., a core for each rank\n");
    return 2;
  }
  int size = argc - 2;
  // Where the ranks find each other: beside the socket, whose folder xtask removes.
  std::string folder = std::string(argv[1]) + ".store";
  if (mkdir(folder.c_str(), 0700) != 0) fail("mkdir");
  for (int rank = 1; rank < size; rank++) {
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      return serve(argv[1], rank, size, atoi(argv[2 + rank]), folder);
    }
  }
  int result = serve(argv[1], 0, size, atoi(argv[2]), folder);
  while (wait(NULL) > 0) {
  }
  return result;
}
