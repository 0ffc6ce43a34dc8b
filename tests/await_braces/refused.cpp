// A sample for await_braces.sh, which is not compiled: it must report the marked lines.

Awaitable<void> refused(Client client) {
  co_await client.write(Options{.wait = true});                               // refused
  co_await client.create("/a;b", {"x"});                                      // refused
  Reply reply = co_await client.perform(Request{}, {1});                      // refused
  const Stat stat = (co_await client.perform(make_request(), Call{nullptr}))  // refused
                        .stat;
  combine(Options{}, co_await client.read());                        // refused
  const Pair pair{1, co_await client.read()};                        // refused
  co_await client.write(std::vector<int>{1, 2});                     // refused
  if (co_await client.exists(Path{"/a"})) co_return;                 // refused
  co_await client.each([](int) { return Point{1, 2}; }, Options{});  // refused
}
