// Apache Curator's LeaderLatch in bench/election: "takeover <hosts>" waits for a line on its input for each round, and
// prints how many microseconds pass between the leader's close() and the next one's isLeader(); "hold <hosts>" leads on
// /hold until it is killed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

public final class CuratorTakeover {
  private static CuratorFramework connect(String hosts, int sessionTimeout) {
    CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, sessionTimeout, 10_000, new RetryOneTime(100));
    client.start();
    return client;
  }

  private static long takeover(CuratorFramework first, CuratorFramework second) throws Exception {
    LeaderLatch leader = new LeaderLatch(first, "/curator", "a");
    leader.start();
    leader.await();
    CountDownLatch told = new CountDownLatch(1);
    long[] when = new long[1];
    LeaderLatch next = new LeaderLatch(second, "/curator", "b");
    next.addListener(new LeaderLatchListener() {
      @Override
      public void isLeader() {
        when[0] = System.nanoTime();
        told.countDown();
      }
      @Override
      public void notLeader() {}
    });
    next.start();
    while (leader.getParticipants().size() < 2) {
      Thread.sleep(1);
    }
    Thread.sleep(100);  // Until its watch is armed, also over a network.
    long begin = System.nanoTime();
    leader.close();
    told.await();
    next.close();
    return (when[0] - begin) / 1000;
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    if (arguments[0].equals("hold")) {
      LeaderLatch latch = new LeaderLatch(connect(arguments[1], Integer.parseInt(arguments[2])), "/hold", "curator");
      latch.start();
      latch.await();
      System.out.println("leads");
      orders.readLine();
      Runtime.getRuntime().halt(0);
    }
    CuratorFramework first = connect(arguments[1], 30_000);
    CuratorFramework second = connect(arguments[1], 30_000);
    for (int warmup = 0; warmup < 30; ++warmup) {
      takeover(first, second);
    }
    System.out.println("ready");
    while (orders.readLine() != null) {
      System.out.println(takeover(first, second));
    }
    Runtime.getRuntime().halt(0);
  }
}
