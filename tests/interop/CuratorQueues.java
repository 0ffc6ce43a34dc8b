import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's queues and barrier.
 *
 * <p>HOSTS JOB...: does one job after the other. A job is VERB:KIND:PATH:LOCKPATH:COUNT.
 *
 * <p>VERB put: COUNT items "PATH-0", "PATH-1", ... (kind priority: with the priorities 2, 1, 0, -1, -2, 2, ...). VERB take:
 * takes COUNT items, or with COUNT 0 until none comes for a second and a half, and prints "item PATH TEXT" for each. KIND:
 * simple, queue, multi (three items a node), priority, delay (due 1, 2, ... seconds ago, and the last one in an hour), id (with
 * the ids id-0 to id-4, in turn). LOCKPATH may be empty.
 *
 * <p>VERB remove, KIND id: removes the items of the id "id-COUNT", and prints their number as an item.
 *
 * <p>VERB raise, lower, wait: a DistributedBarrier at PATH.
 */
public class CuratorQueues {
  static class Text implements QueueSerializer<String> {
    @Override
    public byte[] serialize(String item) {
      return item.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public String deserialize(byte[] bytes) {
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }

  static class Collector implements QueueConsumer<String> {
    final LinkedBlockingQueue<String> items = new LinkedBlockingQueue<>();

    @Override
    public void consumeMessage(String item) {
      items.add(item);
    }

    @Override
    public void stateChanged(CuratorFramework client, ConnectionState state) {}
  }

  static MultiItem<String> several(List<String> items) {
    Iterator<String> next = items.iterator();
    return () -> next.hasNext() ? next.next() : null;
  }

  static QueueBuilder<String> builder(CuratorFramework client, Collector into, String path, String lock) {
    QueueBuilder<String> builder = QueueBuilder.builder(client, into, new Text(), path);
    return lock.isEmpty() ? builder : builder.lockPath(lock);
  }

  static void put(CuratorFramework client, String kind, String path, String lock, int count) throws Exception {
    if (kind.equals("simple")) {
      SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
      for (int i = 0; i < count; ++i) queue.offer(new Text().serialize(path + "-" + i));
      return;
    }
    if (kind.equals("priority")) {
      DistributedPriorityQueue<String> queue = builder(client, null, path, lock).buildPriorityQueue(0);
      queue.start();
      for (int i = 0; i < count; ++i) queue.put(path + "-" + i, 2 - i % 5);
      queue.flushPuts(30, TimeUnit.SECONDS);
      queue.close();
      return;
    }
    if (kind.equals("delay")) {
      DistributedDelayQueue<String> queue = builder(client, null, path, lock).buildDelayQueue();
      queue.start();
      long now = System.currentTimeMillis();
      for (int i = 0; i < count; ++i) queue.put(path + "-" + i, i + 1 < count ? now - 1000 * (i + 1) : now + 3600000);
      queue.flushPuts(30, TimeUnit.SECONDS);
      queue.close();
      return;
    }
    if (kind.equals("id")) {
      DistributedIdQueue<String> queue = builder(client, null, path, lock).buildIdQueue();
      queue.start();
      for (int i = 0; i < count; ++i) queue.put(path + "-" + i, "id-" + i % 5);
      queue.flushPuts(30, TimeUnit.SECONDS);
      queue.close();
      return;
    }
    DistributedQueue<String> queue = builder(client, null, path, lock).buildQueue();
    queue.start();
    List<String> group = new ArrayList<>();
    for (int i = 0; i < count; ++i) {
      group.add(path + "-" + i);
      if (kind.equals("queue") || group.size() == 3) {
        queue.putMulti(several(group));
        queue.flushPuts(30, TimeUnit.SECONDS);
        group = new ArrayList<>();
      }
    }
    queue.close();
  }

  static void remove(CuratorFramework client, String path, String lock, int number) throws Exception {
    DistributedIdQueue<String> queue = builder(client, null, path, lock).buildIdQueue();
    queue.start();
    print(path, String.valueOf(queue.remove("id-" + number)));
    queue.close();
  }

  static void print(String path, String item) {
    synchronized (System.out) {
      System.out.println("item " + path + " " + item);
    }
  }

  static void take(CuratorFramework client, String kind, String path, String lock, int count) throws Exception {
    long patience = count == 0 ? 1500 : 30000;
    if (kind.equals("simple")) {
      SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
      for (int i = 0; count == 0 || i < count; ++i) {
        byte[] item = queue.poll(patience, TimeUnit.MILLISECONDS);
        if (item == null) break;
        print(path, new Text().deserialize(item));
      }
      return;
    }
    Collector collector = new Collector();
    AutoCloseable closer;
    if (kind.equals("priority")) {
      DistributedPriorityQueue<String> queue = builder(client, collector, path, lock).buildPriorityQueue(0);
      queue.start();
      closer = queue;
    } else if (kind.equals("delay")) {
      DistributedDelayQueue<String> queue = builder(client, collector, path, lock).buildDelayQueue();
      queue.start();
      closer = queue;
    } else if (kind.equals("id")) {
      DistributedIdQueue<String> queue = builder(client, collector, path, lock).buildIdQueue();
      queue.start();
      closer = queue;
    } else {
      DistributedQueue<String> queue = builder(client, collector, path, lock).buildQueue();
      queue.start();
      closer = queue;
    }
    for (int i = 0; count == 0 || i < count; ++i) {
      String item = collector.items.poll(patience, TimeUnit.MILLISECONDS);
      if (item == null) break;
      print(path, item);
    }
    closer.close();
  }

  static void run(CuratorFramework client, String job) throws Exception {
    String[] parts = job.split(":", -1);
    String path = parts[2];
    switch (parts[0]) {
      case "put":
        put(client, parts[1], path, parts[3], Integer.parseInt(parts[4]));
        break;
      case "take":
        take(client, parts[1], path, parts[3], Integer.parseInt(parts[4]));
        break;
      case "remove":
        remove(client, path, parts[3], Integer.parseInt(parts[4]));
        break;
      case "raise":
        new DistributedBarrier(client, path).setBarrier();
        break;
      case "lower":
        new DistributedBarrier(client, path).removeBarrier();
        break;
      default:
        if (!new DistributedBarrier(client, path).waitOnBarrier(30, TimeUnit.SECONDS)) System.exit(2);
    }
  }

  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], 20000, 15000, new ExponentialBackoffRetry(100, 10));
    client.start();
    for (int i = 1; i < args.length; ++i) run(client, args[i]);
    client.close();
    System.out.println("done");
    System.exit(0);
  }
}
