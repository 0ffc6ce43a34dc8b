import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator as a contender.
 *
 * <p>contend HOSTS ROUNDS KIND:PATH:FOLDER:CROWD...: contends for all of them at once, ROUNDS times each; KIND is
 * mutex, rw or semaphore-N. Prints "overlaps N", "holders N", "readers N", "libraries N". See interop_test.cpp for
 * them, and for what is done in FOLDER.
 *
 * <p>revoke HOSTS MINE THEIRS: holds the mutex MINE until it is asked to give it back, then asks the holder of THEIRS.
 *
 * <p>obey HOSTS PATH: each line of the input is "NAME VERB [ARGUMENT]", and is said again when NAME, a contender of its
 * own, has done that; see Obedient for the verbs.
 */
public class CuratorPeer {
  static final AtomicInteger overlaps = new AtomicInteger();
  static final AtomicInteger mostHolders = new AtomicInteger();
  static final AtomicInteger mostReaders = new AtomicInteger();
  static final AtomicInteger mostLibraries = new AtomicInteger();

  static String[] names(String folder, String prefix) {
    return new File(folder).list((dir, name) -> name.startsWith(prefix));
  }

  /** Waits until everybody has come: who starts quickly would be done before the others. */
  static void meet(String folder, int crowd) throws Exception {
    new File(folder, "here-" + UUID.randomUUID()).createNewFile();
    long began = System.nanoTime();
    while (names(folder, "here-").length < crowd) {
      if (System.nanoTime() - began > TimeUnit.SECONDS.toNanos(60)) {
        throw new IllegalStateException("not everybody has come");
      }
      Thread.sleep(10);
    }
  }

  /** Part of the experiment: long enough for others to come in. */
  static void stay() throws InterruptedException {
    Thread.sleep(ThreadLocalRandom.current().nextInt(2, 6));
  }

  interface Look {
    boolean seen();
  }

  /**
   * In its first round each process stays inside until somebody has seen what is to be seen: as many inside at once as
   * may be. On a busy machine that would otherwise be left to chance.
   */
  static void stayUntilSeen(String folder, Look look) throws Exception {
    File seen = new File(folder, "seen");
    long began = System.nanoTime();
    while (!seen.exists() && System.nanoTime() - began < TimeUnit.SECONDS.toNanos(60)) {
      if (look.seen()) seen.createNewFile();
      Thread.sleep(1);
    }
  }

  static void exclusive(String folder) throws Exception {
    File writer = new File(folder, "writer");
    if (!writer.createNewFile()) overlaps.incrementAndGet();
    if (names(folder, "reader-").length > 0) overlaps.incrementAndGet();
    Path counter = Path.of(folder, "counter");
    int value = Integer.parseInt(Files.readString(counter).trim());
    Files.writeString(counter, Integer.toString(value + 1));
    writer.delete();
  }

  static void shared(String folder) throws Exception {
    File reader = new File(folder, "reader-curator-" + UUID.randomUUID());
    reader.createNewFile();
    if (new File(folder, "writer").exists()) overlaps.incrementAndGet();
    stayUntilSeen(
        folder,
        () -> {
          String[] readers = names(folder, "reader-");
          long libraries = Arrays.stream(readers).map(name -> name.split("-")[1]).distinct().count();
          mostReaders.accumulateAndGet(readers.length, Math::max);
          mostLibraries.accumulateAndGet((int) libraries, Math::max);
          return libraries == 2;
        });
    stay();
    reader.delete();
  }

  static void oneOf(String folder, int most) throws Exception {
    File holder = new File(folder, "holder-" + UUID.randomUUID());
    holder.createNewFile();
    Look look =
        () -> {
          int holders = names(folder, "holder-").length;
          if (holders > most) overlaps.incrementAndGet();
          mostHolders.accumulateAndGet(holders, Math::max);
          return holders >= most;
        };
    look.seen();
    stayUntilSeen(folder, look);
    stay();
    holder.delete();
  }

  static void contend(CuratorFramework client, int rounds, String job) throws Exception {
    String[] parts = job.split(":");
    String kind = parts[0];
    String path = parts[1];
    String folder = parts[2];
    client.blockUntilConnected(60, TimeUnit.SECONDS);
    meet(folder, Integer.parseInt(parts[3]));
    for (int i = 0; i < rounds; ++i) {
      if (kind.equals("mutex")) {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        mutex.acquire();
        exclusive(folder);
        mutex.release();
      } else if (kind.equals("rw")) {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
        boolean writes = i % 2 == 1;
        InterProcessMutex side = writes ? lock.writeLock() : lock.readLock();
        side.acquire();
        if (writes) exclusive(folder);
        else shared(folder);
        side.release();
      } else {
        int most = Integer.parseInt(kind.substring("semaphore-".length()));
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, most);
        Lease lease = semaphore.acquire();
        oneOf(folder, most);
        semaphore.returnLease(lease);
      }
    }
  }

  static void revoke(CuratorFramework client, String mine, String theirs) throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    InterProcessMutex mutex = new InterProcessMutex(client, mine);
    mutex.makeRevocable(lock -> asked.countDown());
    mutex.acquire();
    asked.await();
    mutex.release();
    for (String name : client.getChildren().forPath(theirs)) {
      Revoker.attemptRevoke(client, theirs + "/" + name);
    }
  }

  /** A contender with a thread of its own, because Curator's locks belong to threads. */
  static class Obedient {
    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final CuratorFramework client;
    private final String path;
    private final InterProcessReadWriteLock lock;
    private SharedCount limit;

    Obedient(CuratorFramework client, String path) {
      this.client = client;
      this.path = path;
      lock = new InterProcessReadWriteLock(client, path);
    }

    void tell(String line) {
      thread.execute(
          () -> {
            try {
              System.out.println(line + act(line.split(" ")));
            } catch (Exception e) {
              System.out.println(line + ": " + e);
            }
          });
    }

    private String act(String[] words) throws Exception {
      switch (words[1]) {
        case "read":
          lock.readLock().acquire();
          return "";
        case "unread":
          lock.readLock().release();
          return "";
        case "write":
          lock.writeLock().acquire();
          return "";
        case "unwrite":
          lock.writeLock().release();
          return "";
        case "revocable": // Says "NAME asked" when its reader is asked to give way.
          lock.readLock().makeRevocable(mutex -> System.out.println(words[0] + " asked"));
          return "";
        case "revoke":
          Revoker.attemptRevoke(client, words[2]);
          return "";
        case "take": // A lease of the semaphore at PATH.
          semaphore().acquire();
          return "";
        case "try":
          return semaphore().acquire(0, TimeUnit.MILLISECONDS) != null ? " granted" : " refused";
        case "limit": // After "take" or "try".
          limit.setCount(Integer.parseInt(words[2]));
          return "";
        default:
          throw new IllegalArgumentException(words[1]);
      }
    }

    /** Knows the limit as it is now, and hears of changes. */
    private InterProcessSemaphoreV2 semaphore() throws Exception {
      limit = new SharedCount(client, path + "-limit", 0);
      limit.start();
      return new InterProcessSemaphoreV2(client, path, limit);
    }
  }

  static void obey(CuratorFramework client, String path) throws Exception {
    Map<String, Obedient> contenders = new HashMap<>();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      contenders.computeIfAbsent(line.split(" ")[0], name -> new Obedient(client, path)).tell(line);
    }
    client.close();
    System.exit(0); // Whoever waits still.
  }

  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[1], 20000, 15000, new ExponentialBackoffRetry(100, 10));
    client.start();
    if (args[0].equals("revoke")) {
      revoke(client, args[2], args[3]);
      client.close();
      return;
    }
    if (args[0].equals("obey")) {
      obey(client, args[2]);
      return;
    }
    int rounds = Integer.parseInt(args[2]);
    List<Thread> crew = new ArrayList<>();
    AtomicInteger failures = new AtomicInteger();
    for (int i = 3; i < args.length; ++i) {
      String job = args[i];
      Thread thread =
          new Thread(
              () -> {
                try {
                  contend(client, rounds, job);
                } catch (Exception e) {
                  System.out.println(job + ": " + e);
                  failures.incrementAndGet();
                }
              });
      thread.start();
      crew.add(thread);
    }
    for (Thread thread : crew) thread.join();
    client.close();
    System.out.println("overlaps " + overlaps.get());
    System.out.println("holders " + mostHolders.get());
    System.out.println("readers " + mostReaders.get());
    System.out.println("libraries " + mostLibraries.get());
    System.exit(failures.get());
  }
}
