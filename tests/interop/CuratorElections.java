// Apache Curator's side of election_interop_test.cpp. Ends with its input.
//
//   turns <hosts>                 A LeaderLatch on /latch and a LeaderSelector on /selector, again and again. Prints
//                                 "led latch", "led selector".
//   candidate <hosts> <timeout>   One LeaderLatch on /killed, with a session timeout in ms; "leads <pid>" when it leads,
//                                 which it does for as long as it lives.
//
// Either prints "overlap ..." when somebody else led at the same time.

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

public final class CuratorElections {
  private static CuratorFramework client;
  private static LeaderLatch latch;

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  // Whoever leads has this node for a moment.
  private static void lead(String kind) throws Exception {
    String node = "/occupied-" + kind;
    try {
      client.create().withMode(CreateMode.EPHEMERAL).forPath(node);
    } catch (KeeperException.NodeExistsException taken) {
      say("overlap " + kind);
      return;
    }
    Thread.sleep(5);
    client.delete().forPath(node);
    say("led " + kind);
  }

  private static void runLatches() {
    try {
      while (true) {
        try (LeaderLatch latch = new LeaderLatch(client, "/latch", "curator")) {
          latch.start();
          latch.await();
          lead("latch");
        }
      }
    } catch (Exception problem) {
      say("failed " + problem);
    }
  }

  // Leads until it is killed, or its session is over.
  private static void runCandidate() throws Exception {
    String pid = Long.toString(ProcessHandle.current().pid());
    latch = new LeaderLatch(client, "/killed", pid);
    latch.addListener(new LeaderLatchListener() {
      @Override
      public void isLeader() {
        try {
          client.create().withMode(CreateMode.EPHEMERAL).forPath("/occupied-killed");
          say("leads " + pid);
        } catch (KeeperException.NodeExistsException taken) {
          say("overlap " + pid);
        } catch (Exception problem) {
          say("failed " + problem);
        }
      }
      @Override
      public void notLeader() {}
    });
    latch.start();
    say("waits " + pid);
  }

  private static void runTurns() throws Exception {
    Thread latches = new Thread(CuratorElections::runLatches);
    latches.setDaemon(true);
    latches.start();
    LeaderSelector selector = new LeaderSelector(client, "/selector", new LeaderSelectorListenerAdapter() {
      @Override
      public void takeLeadership(CuratorFramework unused) throws Exception {
        lead("selector");
      }
    });
    selector.setId("curator");
    selector.autoRequeue();
    selector.start();
  }

  public static void main(String[] arguments) throws Exception {
    boolean candidate = arguments[0].equals("candidate");
    int timeout = candidate ? Integer.parseInt(arguments[2]) : 30_000;
    client = CuratorFrameworkFactory.newClient(arguments[1], timeout, 10_000, new RetryOneTime(100));
    client.start();
    if (candidate) {
      runCandidate();
    } else {
      runTurns();
    }
    while (System.in.read() >= 0) {
    }
    Runtime.getRuntime().halt(0);
  }
}
