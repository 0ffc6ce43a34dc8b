// Apache Curator's side of group_interop_test.cpp. Arguments: the servers, and the session timeout in ms. Ends with its
// input, of which each line is a command; each is answered by lines of which the last one is "done". No payload: empty.
//
//   join <path> <id> [<payload>]     makes a GroupMember
//   update <path> <id> <payload>     of a GroupMember that it made
//   close <path> <id>
//   see <path> <id> <member>...      waits until the GroupMember sees these and nobody else, and prints whom it sees, one
//                                    line each: "<id>=<payload>"
//   keep <path> <name> <mode> <protected> <data>
//                                    makes a PersistentNode there, waits for its node, and prints the name of that
//   keep-ttl <path> <name> <ttl in ms> <data>
//                                    makes a PersistentTtlNode there, and waits for its nodes
//   end <path> <name>                closes it
//   cache <path> <name>              makes a PathChildrenCache, and waits until it knows the children that are there
//   events <path> <name> <count>     waits for so many events since the last such command, and prints all that came

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheEvent;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.utils.ThreadUtils;
import org.apache.zookeeper.CreateMode;

public final class CuratorGroups {
  private static final Map<String, GroupMember> members = new HashMap<>();
  private static final Map<String, AutoCloseable> nodes = new HashMap<>();
  private static final ScheduledExecutorService touches = ThreadUtils.newSingleThreadScheduledExecutor("touches");
  private static final PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private static byte[] payload(String[] words) {
    return (words.length > 3 ? words[3] : "").getBytes(StandardCharsets.UTF_8);
  }

  private static List<String> seen(GroupMember member) {
    List<String> lines = new ArrayList<>();
    for (Map.Entry<String, byte[]> entry : member.getCurrentMembers().entrySet())
      lines.add(entry.getKey() + "=" + new String(entry.getValue(), StandardCharsets.UTF_8));
    lines.sort(null);
    return lines;
  }

  // A GroupMember tells nobody of a change, so it is asked again and again.
  private static List<String> see(GroupMember member, List<String> wanted) throws InterruptedException {
    long end = System.nanoTime() + 30_000_000_000L;
    List<String> seen = seen(member);
    while (!seen.equals(wanted) && System.nanoTime() < end) {
      Thread.sleep(5);
      seen = seen(member);
    }
    return seen;
  }

  /** What a PathChildrenCache tells of children. */
  private static final class Told {
    private final List<String> events = new ArrayList<>();
    private final PathChildrenCache cache;

    Told(CuratorFramework client, String path) throws Exception {
      cache = new PathChildrenCache(client, path, true);
      cache.getListenable().addListener((source, event) -> put(event));
      cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
    }

    private synchronized void put(PathChildrenCacheEvent event) {
      if (event.getData() == null) return;
      String name = event.getData().getPath();
      byte[] bytes = event.getData().getData();
      String data = bytes == null ? "" : new String(bytes, StandardCharsets.UTF_8);
      events.add(event.getType() + " " + name.substring(name.lastIndexOf('/') + 1) + "=" + data);
      notifyAll();
    }

    synchronized List<String> take(int count) throws InterruptedException {
      long end = System.nanoTime() + 30_000_000_000L;
      while (events.size() < count && System.nanoTime() < end) wait(20);
      List<String> taken = new ArrayList<>(events);
      events.clear();
      return taken;
    }
  }

  private static final Map<String, Told> caches = new HashMap<>();

  private static String keep(CuratorFramework client, String[] words) throws Exception {
    PersistentNode node = new PersistentNode(client, CreateMode.valueOf(words[3]), Boolean.parseBoolean(words[4]),
        words[1] + "/" + words[2], words[5].getBytes(StandardCharsets.UTF_8));
    nodes.put(words[1] + " " + words[2], node);
    node.start();
    node.waitForInitialCreate(30, TimeUnit.SECONDS);
    return node.getActualPath().substring(words[1].length() + 1);
  }

  private static void keepTtl(CuratorFramework client, String[] words) throws Exception {
    // It writes "touch" for the first time after this part of the time to live, and then each time.
    long ttl = Long.parseLong(words[3]);
    int part = (int) (ttl / 500);
    PersistentTtlNode node = new PersistentTtlNode(client, touches, words[1] + "/" + words[2], ttl,
        words[4].getBytes(StandardCharsets.UTF_8), PersistentTtlNode.DEFAULT_CHILD_NODE_NAME, part, true);
    nodes.put(words[1] + " " + words[2], node);
    node.start();
    node.waitForInitialCreate(30, TimeUnit.SECONDS);
  }

  private static void obey(CuratorFramework client, String[] words) throws Exception {
    String key = words[1] + " " + words[2];
    switch (words[0]) {
      case "join": {
        GroupMember member = new GroupMember(client, words[1], words[2], payload(words));
        member.start();
        members.put(key, member);
        break;
      }
      case "update":
        members.get(key).setThisData(payload(words));
        break;
      case "close":
        members.remove(key).close();
        break;
      case "see":
        for (String line : see(members.get(key), Arrays.asList(words).subList(3, words.length))) output.println(line);
        break;
      case "keep":
        output.println(keep(client, words));
        break;
      case "keep-ttl":
        keepTtl(client, words);
        break;
      case "end":
        nodes.remove(key).close();
        break;
      case "cache":
        caches.put(key, new Told(client, words[1]));
        break;
      case "events":
        for (String line : caches.get(key).take(Integer.parseInt(words[3]))) output.println(line);
        break;
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  public static void main(String[] arguments) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(
        arguments[0], Integer.parseInt(arguments[1]), 10_000, new RetryOneTime(100));
    client.start();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        obey(client, line.split(" "));
      } catch (Exception problem) {
        output.println("failed " + problem);
      }
      output.println("done");
    }
    client.close();
  }
}
