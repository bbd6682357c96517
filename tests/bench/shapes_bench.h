// Shapes that are not a square of one head after the other: one query, grouped
// heads, two workers.
#ifndef ATTND_TESTS_BENCH_SHAPES_BENCH_H_
#define ATTND_TESTS_BENCH_SHAPES_BENCH_H_

namespace attnd::bench {

// attend/f32/one_query/...    read_share: time of a vectorised read of the same
//                             keys and values / time
// attend/f32/grouped/...      product_ratio: time / time of the bare products
// attend/f32/two_workers/...  speedup: time of one worker / time of two
// Times are the best of 3 samples each, taken in turns.
void RegisterShapes();

}  // namespace attnd::bench

#endif  // ATTND_TESTS_BENCH_SHAPES_BENCH_H_
