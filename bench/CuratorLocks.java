import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Apache Curator as a contender of the benchmark "locks"; see lock_peer.hpp for what it reads and prints. */
public class CuratorLocks {
  static final int DRAIN_SESSIONS = 8;
  static String hosts;
  static String folder;
  static final List<CuratorFramework> clients = new ArrayList<>();
  static final List<Thread> waiters = new ArrayList<>();
  static InterProcessMutex held;

  interface Lock {
    void acquire() throws Exception;

    void release() throws Exception;
  }

  static Lock lockOf(InterProcessMutex mutex) {
    return new Lock() {
      public void acquire() throws Exception {
        mutex.acquire();
      }

      public void release() throws Exception {
        mutex.release();
      }
    };
  }

  static CuratorFramework client(int i) throws Exception {
    while (clients.size() <= i) {
      CuratorFramework client =
          CuratorFrameworkFactory.newClient(hosts, 30000, 30000, new ExponentialBackoffRetry(100, 10));
      client.start();
      client.blockUntilConnected();
      clients.add(client);
    }
    return clients.get(i);
  }

  static long cpuMicros() throws Exception {
    String stat = new String(java.nio.file.Files.readAllBytes(java.nio.file.Path.of("/proc/self/stat")));
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) * 10000;
  }

  static String run(int count, int millis, boolean reads, String name) throws Exception {
    AtomicInteger inside = new AtomicInteger();
    AtomicLong overlaps = new AtomicLong();
    long[] cycles = new long[count];
    CyclicBarrier barrier = new CyclicBarrier(count + 1);
    List<Thread> crew = new ArrayList<>();
    long[] end = new long[1];
    Exception[] failure = new Exception[1];
    for (int i = 0; i < count; ++i) {
      int me = i;
      String path = folder + "/" + name;
      Lock lock =
          lockOf(
              reads
                  ? new InterProcessReadWriteLock(client(i), path).readLock()
                  : new InterProcessMutex(client(i), path));
      Thread thread =
          new Thread(
              () -> {
                try {
                  barrier.await();
                  while (System.nanoTime() < end[0]) {
                    lock.acquire();
                    if (!reads && inside.incrementAndGet() != 1) overlaps.incrementAndGet();
                    ++cycles[me];
                    if (!reads) inside.decrementAndGet();
                    lock.release();
                  }
                } catch (Exception e) {
                  failure[0] = e;
                }
              });
      thread.start();
      crew.add(thread);
    }
    long cpu = cpuMicros();
    long begin = System.nanoTime();
    end[0] = begin + millis * 1000000L;
    barrier.await();
    for (Thread thread : crew) thread.join();
    if (failure[0] != null) throw failure[0];
    long wall = (System.nanoTime() - begin) / 1000;
    long sum = 0, least = Long.MAX_VALUE, most = 0;
    for (long one : cycles) {
      sum += one;
      least = Math.min(least, one);
      most = Math.max(most, one);
    }
    return "done " + sum + " " + wall + " " + (cpuMicros() - cpu) + " " + least + " " + most + " " + overlaps.get();
  }

  static void queue(int count) throws Exception {
    String path = folder + "/drain";
    held = new InterProcessMutex(client(0), path);
    held.acquire();
    waiters.clear();
    for (int i = 0; i < count; ++i) {
      InterProcessMutex mutex = new InterProcessMutex(client(i % DRAIN_SESSIONS), path);
      Thread thread =
          new Thread(
              null,
              () -> {
                try {
                  mutex.acquire();
                  mutex.release();
                } catch (Exception e) {
                  System.out.println("error " + e);
                  System.exit(1);
                }
              },
              "waiter",
              128 * 1024);
      thread.start();
      waiters.add(thread);
    }
    while (client(0).getChildren().forPath(path).size() <= count) Thread.sleep(20);
    Thread.sleep(300); // Until the last ones have set their watches.
  }

  static String drain() throws Exception {
    long cpu = cpuMicros();
    long begin = System.nanoTime();
    held.release();
    for (Thread thread : waiters) thread.join();
    long wall = (System.nanoTime() - begin) / 1000;
    return "done " + waiters.size() + " " + wall + " " + (cpuMicros() - cpu) + " 1 1 0";
  }

  static String obey(String[] words) throws Exception {
    int first = words.length > 1 ? Integer.parseInt(words[1]) : 0;
    int second = words.length > 2 ? Integer.parseInt(words[2]) : 0;
    switch (words[0]) {
      case "cycle":
        return run(1, first, false, "cycle");
      case "contend":
        return run(first, second, false, "contend");
      case "readers":
        return run(first, second, true, "readers");
      case "queue":
        queue(first);
        return "queued";
      case "drain":
        return drain();
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  public static void main(String[] args) throws Exception {
    hosts = args[0];
    folder = args[1];
    try {
      client(0);
      System.out.println("ready");
      BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        System.out.println(obey(line.split(" ")));
      }
    } catch (Exception e) {
      System.out.println("error " + e);
    }
    System.exit(0);
  }
}
