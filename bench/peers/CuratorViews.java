import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.zookeeper.CreateMode;

/** Curator's caches and persistent nodes as contenders; see CuratorBench. */
@SuppressWarnings("deprecation")
class CuratorViews {
  static boolean knows(String kind) {
    return kind.startsWith("open-") || kind.startsWith("hold-") || kind.equals("change")
        || kind.equals("persistent");
  }

  static CuratorBench.Work work(CuratorFramework client, String path, String kind) throws Exception {
    switch (kind) {
      case "open-path":
        return () -> {
          PathChildrenCache cache = new PathChildrenCache(client, path, true);
          cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
          cache.close();
        };
      case "open-cache": return () -> opened(client, path).close();
      case "hold-cache":
        opened(client, path);
        return () -> Thread.sleep(1);
      case "hold-tree":
        CountDownLatch ready = new CountDownLatch(1);
        TreeCache tree = TreeCache.newBuilder(client, path).build();
        tree.getListenable().addListener((one, event) -> {
          if (event.getType() == TreeCacheEvent.Type.INITIALIZED) ready.countDown();
        });
        tree.start();
        ready.await();
        return () -> Thread.sleep(1);
      case "persistent":
        return () -> {
          PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path + "/node", new byte[100]);
          node.start();
          if (!node.waitForInitialCreate(30, TimeUnit.SECONDS)) throw new IllegalStateException("not created");
          node.close();
        };
      default: return changes(client, path);
    }
  }

  static CuratorCache opened(CuratorFramework client, String path) throws Exception {
    CountDownLatch ready = new CountDownLatch(1);
    CuratorCache cache = CuratorCache.build(client, path);
    cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(ready::countDown).build());
    cache.start();
    ready.await();
    return cache;
  }

  /** One session changes the node, the cache of another one tells its listener; then the next change. */
  static CuratorBench.Work changes(CuratorFramework writer, String path) throws Exception {
    CuratorFramework reader = CuratorBench.client(writer.getZookeeperClient().getCurrentConnectionString());
    LinkedBlockingQueue<String> seen = new LinkedBlockingQueue<>();
    NodeCache cache = new NodeCache(reader, path);
    cache.getListenable().addListener(() -> seen.put(new String(cache.getCurrentData().getData())));
    cache.start(true);
    long[] last = {System.nanoTime()};
    return () -> {
      String next = Long.toString(++last[0]);
      writer.setData().forPath(path, next.getBytes());
      while (!seen.take().equals(next)) {}
    };
  }
}
