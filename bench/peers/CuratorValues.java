import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.retry.RetryNTimes;

/** Curator's counter and its shared value as contenders; see CuratorBench. */
class CuratorValues {
  static boolean knows(String kind) {
    return kind.equals("count") || kind.equals("share");
  }

  /** One of the clients that change the node. One that gives up, since others are faster, begins again at once. */
  static CuratorBench.Work work(CuratorFramework client, String path, String kind) throws Exception {
    if (kind.equals("share")) return share(client, path);
    DistributedAtomicLong number = new DistributedAtomicLong(client, path, new RetryNTimes(1000, 0));
    return () -> {
      while (!number.increment().succeeded()) {}
    };
  }

  /** It writes from the value that it last saw, which a refusal makes it read again. */
  private static CuratorBench.Work share(CuratorFramework client, String path) throws Exception {
    SharedValue value = new SharedValue(client, path, new byte[0]);
    value.start();
    return () -> {
      while (!value.trySetValue(value.getVersionedValue(), "curator".getBytes())) {}
    };
  }
}
