import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.retry.RetryNTimes;

/** Curator's counter as a contender; see CuratorBench. */
class CuratorValues {
  static boolean knows(String kind) {
    return kind.equals("count");
  }

  /** One of the clients that add to the number. One that gives up, since others are faster, begins again at once. */
  static CuratorBench.Work work(CuratorFramework client, String path) {
    DistributedAtomicLong number = new DistributedAtomicLong(client, path, new RetryNTimes(1000, 0));
    return () -> {
      while (!number.increment().succeeded()) {}
    };
  }
}
