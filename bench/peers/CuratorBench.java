import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator as a contender: CuratorBench HOSTS PATH KIND PAIRS BACKLOG. KIND: simple, queue, locked, delay (items that
 * are due), barrier (PAIRS members), count or share (PAIRS clients), or one of CuratorViews. Driven through standard input and
 * output as raw_program.hpp says.
 */
public class CuratorBench {
  static final byte[] ITEM = new byte[64];
  static final AtomicLong taken = new AtomicLong();
  static volatile boolean running;

  static CuratorFramework client(String hosts) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(hosts, 20000, 15000, new ExponentialBackoffRetry(100, 10));
    client.start();
    client.blockUntilConnected();
    return client;
  }

  static class Bytes implements QueueSerializer<byte[]> {
    @Override
    public byte[] serialize(byte[] item) {
      return item;
    }

    @Override
    public byte[] deserialize(byte[] bytes) {
      return bytes;
    }
  }

  interface Push {
    void one() throws Exception;
  }

  static void fail(Exception error) {
    System.out.println("error " + error.toString().replace('\n', ' '));
    System.exit(1);
  }

  static void queues(String hosts, String path, String kind, int pairs, int backlog) throws Exception {
    Semaphore room = new Semaphore(0);
    List<Push> producers = new ArrayList<>();
    for (int i = 0; i < pairs; ++i) {
      CuratorFramework mine = client(hosts);
      CuratorFramework theirs = client(hosts);
      if (kind.equals("simple")) {
        SimpleDistributedQueue out = new SimpleDistributedQueue(mine, path);
        SimpleDistributedQueue in = new SimpleDistributedQueue(theirs, path);
        producers.add(() -> out.offer(ITEM));
        daemon(() -> {
          for (;;) {
            if (!running) Thread.sleep(1);
            else if (in.poll(100, TimeUnit.MILLISECONDS) != null) {
              taken.incrementAndGet();
              room.release();
            }
          }
        });
        continue;
      }
      QueueConsumer<byte[]> consumer = new QueueConsumer<byte[]>() {
        @Override
        public void consumeMessage(byte[] item) throws Exception {
          taken.incrementAndGet();
          room.release();
          while (!running) Thread.sleep(1);
        }

        @Override
        public void stateChanged(CuratorFramework one, ConnectionState state) {}
      };
      QueueBuilder<byte[]> builder = QueueBuilder.builder(theirs, consumer, new Bytes(), path);
      QueueBuilder<byte[]> sender = QueueBuilder.builder(mine, null, new Bytes(), path);
      if (kind.equals("locked")) {
        builder.lockPath(path + "-locks");
        sender.lockPath(path + "-locks");
      }
      if (kind.equals("delay")) {
        DistributedDelayQueue<byte[]> out = sender.buildDelayQueue();
        out.start();
        producers.add(() -> out.put(ITEM, System.currentTimeMillis()));
        builder.buildDelayQueue().start();
        continue;
      }
      DistributedQueue<byte[]> out = sender.buildQueue();
      out.start();
      producers.add(() -> out.put(ITEM));
      builder.buildQueue().start();
    }
    for (int i = 0; i < backlog; ++i) producers.get(i % pairs).one();
    for (Push producer : producers) {
      daemon(() -> {
        for (;;) {
          room.acquire();
          producer.one();
        }
      });
    }
    // So many are under way besides the backlog.
    room.release(64 * pairs);
  }

  static void barriers(String hosts, String path, int members) throws Exception {
    for (int i = 0; i < members; ++i) {
      CuratorFramework mine = client(hosts);
      boolean first = i == 0;
      daemon(() -> {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(mine, path, members);
        for (;;) {
          while (!running) Thread.sleep(1);
          // Rounds that hang are given up; the next one begins with what that left behind.
          barrier.enter(5, TimeUnit.SECONDS);
          boolean left = barrier.leave(5, TimeUnit.SECONDS);
          if (first && left) taken.incrementAndGet();
        }
      });
    }
  }

  static void repeat(Work work) {
    daemon(() -> {
      for (;;) {
        while (!running) Thread.sleep(1);
        work.run();
        taken.incrementAndGet();
      }
    });
  }

  interface Work {
    void run() throws Exception;
  }

  static void daemon(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.run();
      } catch (Exception error) {
        fail(error);
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  static long cpuMicros() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime() / 1000;
  }

  public static void main(String[] args) throws Exception {
    int pairs = Integer.parseInt(args[3]);
    if (CuratorViews.knows(args[2])) {
      repeat(CuratorViews.work(client(args[0]), args[1], args[2]));
    } else if (CuratorValues.knows(args[2])) {
      for (int i = 0; i < pairs; ++i) repeat(CuratorValues.work(client(args[0]), args[1], args[2]));
    } else if (args[2].equals("barrier")) {
      barriers(args[0], args[1], pairs);
    } else {
      queues(args[0], args[1], args[2], pairs, Integer.parseInt(args[4]));
    }
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      long cpu = cpuMicros();
      long begin = System.nanoTime();
      long before = taken.get();
      running = true;
      Thread.sleep(Long.parseLong(line.split(" ")[1]));
      long done = taken.get() - before;
      running = false;
      System.out.println("done " + done + " " + (System.nanoTime() - begin) / 1000 + " " + (cpuMicros() - cpu));
    }
    System.exit(0);
  }
}
