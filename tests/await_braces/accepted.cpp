// A sample for await_braces.sh, which is not compiled: it must report nothing here.

struct Pending {
  Arrival operator co_await() const { return get(); }
};

Awaitable<void> accepted(Client client) {
  const Options options{.wait = true};
  co_await client.write(options);  // Not Options{.wait = true}.
  co_await client.create("{", R"(co_await {"a"})", '{');
  if (co_await client.exists("/a")) {
    const Point point{1, 2};
  }
  while (!(co_await client.read()).ok()) {
    const Point point{1, 2};
  }
  if ((co_await client.read()).ok()) co_return Point{1, 2};
  for (int i : {1, 2, 3}) {
    co_await client.write(i);
  }
  Reply reply = co_await client.read();
  if (reply.ok()) {
    co_return Point{1'000, 2};
  }
  co_await client.each([](int) { return Point{1, 2}; });
  co_await client.each([](int) mutable -> std::vector<int> { return {1, 2}; });
  /* co_await client.write({1}); */
}
