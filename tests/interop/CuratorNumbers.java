// Apache Curator's side of counter_interop_test.cpp and shared_value_interop_test.cpp. Arguments: the servers. Ends with its input, of which each line is a
// command; each is answered by lines of which the last one is "done". KIND is long, integer or shared.
//
//   add <KIND> <path> <times>    adds 1 so many times, again whenever another client was faster; prints what it was at last
//   get <KIND> <path>
//   value get <path>                prints the version and the text of a SharedValue
//   value set <path> <text>         whatever it was
//   value try <path> <text>         if nobody has changed it since it was read; prints true or false
//   value race <path> <text> <other>  the same, after it has written <other> in between
//   value append <path> <word> <times>  appends <word>0, <word>1, ..., each on condition of what it has read
//   value watch <path>              keeps a SharedValue; prints the text
//   value heard <path> <text>       waits until that one's listener has heard of <text>, and prints the last that it heard

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.SharedValueListener;
import org.apache.curator.framework.recipes.shared.SharedValueReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.retry.RetryOneTime;

public final class CuratorNumbers {
  private static long add(CuratorFramework client, String kind, String path) throws Exception {
    for (;;) {
      if (kind.equals("shared")) {
        SharedCount count = new SharedCount(client, path, 0);
        count.start();
        int before = count.getCount();
        boolean done = count.trySetCount(count.getVersionedValue(), before + 1);
        count.close();
        if (done) return before + 1;
      } else if (kind.equals("integer")) {
        AtomicValue<Integer> value = new DistributedAtomicInteger(client, path, new RetryNTimes(50, 1)).increment();
        if (value.succeeded()) return value.postValue();
      } else {
        AtomicValue<Long> value = new DistributedAtomicLong(client, path, new RetryNTimes(50, 1)).increment();
        if (value.succeeded()) return value.postValue();
      }
    }
  }

  private static String get(CuratorFramework client, String kind, String path) throws Exception {
    RetryOneTime once = new RetryOneTime(1);
    if (kind.equals("long")) return new DistributedAtomicLong(client, path, once).get().postValue().toString();
    return new DistributedAtomicInteger(client, path, once).get().postValue().toString();
  }

  private static String append(SharedValue value, String word, int times) throws Exception {
    for (int i = 0; i < times;) {
      VersionedValue<byte[]> seen = value.getVersionedValue();
      String longer = new String(seen.getValue()) + word + i + " ";
      if (value.trySetValue(seen, longer.getBytes())) ++i;
    }
    return "appended";
  }

  private static final class Watched implements SharedValueListener {
    private final SharedValue value;
    private String heard = "";

    Watched(CuratorFramework client, String path) throws Exception {
      value = new SharedValue(client, path, "seed".getBytes());
      value.getListenable().addListener(this);
      value.start();
    }

    String first() {
      return new String(value.getValue());
    }

    synchronized String await(String text) throws InterruptedException {
      long end = System.nanoTime() + 30_000_000_000L;
      while (!heard.equals(text) && System.nanoTime() < end) wait(20);
      return heard;
    }

    @Override
    public synchronized void valueHasChanged(SharedValueReader changed, byte[] bytes) {
      heard = new String(bytes);
      notifyAll();
    }

    @Override
    public void stateChanged(CuratorFramework client, ConnectionState state) {}
  }

  private static final Map<String, Watched> watched = new HashMap<>();

  private static String value(CuratorFramework client, String[] words) throws Exception {
    if (words[1].equals("watch")) {
      watched.put(words[2], new Watched(client, words[2]));
      return watched.get(words[2]).first();
    }
    if (words[1].equals("heard")) return watched.get(words[2]).await(words[3]);
    try (SharedValue value = new SharedValue(client, words[2], "seed".getBytes())) {
      value.start();
      VersionedValue<byte[]> seen = value.getVersionedValue();
      if (words[1].equals("append")) return append(value, words[3], Integer.parseInt(words[4]));
      if (words[1].equals("get")) return seen.getVersion() + " " + new String(seen.getValue());
      if (words[1].equals("race")) client.setData().forPath(words[2], words[4].getBytes());
      if (!words[1].equals("set")) return Boolean.toString(value.trySetValue(seen, words[3].getBytes()));
      value.setValue(words[3].getBytes());
      return "set";
    }
  }

  private static void obey(CuratorFramework client, String[] words) throws Exception {
    if (words[0].equals("value")) {
      System.out.println(value(client, words));
      return;
    }
    if (words[0].equals("get")) {
      System.out.println(get(client, words[1], words[2]));
      return;
    }
    long last = 0;
    for (int i = Integer.parseInt(words[3]); i > 0; --i) last = add(client, words[1], words[2]);
    System.out.println(last);
  }

  public static void main(String[] arguments) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(arguments[0], 20_000, 10_000, new RetryOneTime(100));
    client.start();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        obey(client, line.split(" "));
      } catch (Exception error) {
        System.out.println("failed " + error);
      }
      System.out.println("done");
    }
    client.close();
  }
}
