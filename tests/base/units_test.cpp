#include "base/units.hpp"

#include "support/catch.hpp"

TEST_CASE("bytes are shown in the largest unit that leaves at least one", "[base]") {
  CHECK(mrb::bytes_text(0) == "0 B");
  CHECK(mrb::bytes_text(1023) == "1023 B");
  CHECK(mrb::bytes_text(1024) == "1.0 KiB");
  CHECK(mrb::bytes_text(1536) == "1.5 KiB");
  CHECK(mrb::bytes_text(std::uint64_t{3} << 30) == "3.0 GiB");
  CHECK(mrb::bytes_text(std::uint64_t{5} << 50) == "5120.0 TiB");
}

TEST_CASE("a gigabyte is 1e9 bytes, and no time gives no bandwidth", "[base]") {
  CHECK(mrb::gbyte_per_s(2'000'000'000, 1'000'000'000) == 2.0);
  CHECK(mrb::gbyte_per_s(1, 0) == 0);
}
