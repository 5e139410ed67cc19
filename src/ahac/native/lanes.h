// Arithmetic of generated code: T holds one number of each of W worlds. Pasted into every kernel, after REAL (float or
// double) and LANE_BYTES (width of a SIMD register) are defined. On CUDA a thread processes one world, W = 1.
typedef REAL real;
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
typedef real T;
enum { W = 1 };
#define EACH_LANE(expression) { const int i = 0; expression; }
#define LANE(x) x
#else
typedef real T __attribute__((vector_size(LANE_BYTES)));
enum { W = LANE_BYTES / sizeof(real) };
#define EACH_LANE(expression) { for (int i = 0; i < W; ++i) expression; }
#define LANE(x) x[i]
#endif

// Loop over the numbers of one group. On CUDA it is unrolled, to keep groups in registers. On the CPU they are in the cache
// anyway, and unrolling would take the compiler longer than all the physics.
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
#define EACH(size) _Pragma("unroll") for (int i = 0; i < size; ++i)
#else
#define EACH(size) _Pragma("clang loop unroll(disable)") for (int i = 0; i < size; ++i)
#endif

struct lane {
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
    static CUDA_CALLABLE T k(real x) { return x; }
    static CUDA_CALLABLE T sqrt(T a) { return ::sqrt(a); }
    static CUDA_CALLABLE T floor(T a) { return ::floor(a); }
    static CUDA_CALLABLE T round(T a) { return ::rint(a); }
    static CUDA_CALLABLE T abs(T a) { return ::fabs(a); }
#else
    static T k(real x) { return T{} + x; }
    static T sqrt(T a) { return __builtin_elementwise_sqrt(a); }
    static T floor(T a) { return __builtin_elementwise_floor(a); }
    static T round(T a) { return __builtin_elementwise_roundeven(a); }
    static T abs(T a) { return __builtin_elementwise_abs(a); }
#endif
    static CUDA_CALLABLE T rcp(T a) { return k(1) / a; }
    static CUDA_CALLABLE T less(T a, T b, T x, T y) { return a < b ? x : y; }
    static CUDA_CALLABLE T min(T a, T b) { return b < a ? b : a; }
    static CUDA_CALLABLE T max(T a, T b) { return a < b ? b : a; }

    // Rarely used functions call the math library for each lane.
    static CUDA_CALLABLE T tanh(T a) { T y{}; EACH_LANE(LANE(y) = (real)::tanh((double)LANE(a))); return y; }
    static CUDA_CALLABLE T atan2(T a, T b) {
        T y{};
        EACH_LANE(LANE(y) = (real)::atan2((double)LANE(a), (double)LANE(b)));
        return y;
    }

#if WIDE_REAL || defined(__CUDA_ARCH__) || defined(__CUDACC__)
    static CUDA_CALLABLE T exp(T a) { T y{}; EACH_LANE(LANE(y) = (real)::exp((double)LANE(a))); return y; }
    static CUDA_CALLABLE T log(T a) { T y{}; EACH_LANE(LANE(y) = (real)::log((double)LANE(a))); return y; }
#else
    // a = n ln 2 + r with |r| <= ln 2 / 2; evaluate the Cephes polynomial at r, then add n to the exponent bits.
    static T exp(T a) {
        typedef int I __attribute__((vector_size(LANE_BYTES)));
        const T x = min(max(a, k(-87.0f)), k(88.0f)), n = round(x * k(1.44269504088896341f));
        const T r = (x - n * k(0.693359375f)) - n * k(-2.12194440e-4f);
        const T p = ((((k(1.9875691500e-4f) * r + k(1.3981999507e-3f)) * r + k(8.3334519073e-3f)) * r +
                      k(4.1665795894e-2f)) * r + k(1.6666665459e-1f)) * r + k(0.5f);
        T y = (p * r * r + r) + k(1.0f);
        I bits;
        __builtin_memcpy(&bits, &y, sizeof(T));
        bits += __builtin_convertvector(n, I) << 23;
        __builtin_memcpy(&y, &bits, sizeof(T));
        // Overflow, underflow and NaN.
        y = less(k(88.0f), a, k(1.0f) / T{}, less(a, k(-87.0f), T{}, y));
        return a == a ? y : a;
    }

    // a = 2^n (1 + r) with 1 + r from 1/sqrt(2) to sqrt(2); evaluate the Cephes polynomial at r. Normal noise uses it.
    static T log(T a) {
        typedef int I __attribute__((vector_size(LANE_BYTES)));
        const T tiny = k(1.17549435e-38f), x = less(a, tiny, a * k(8388608.0f), a);  // denormal numbers: times 2^23
        I bits;
        __builtin_memcpy(&bits, &x, sizeof(T));
        const I shift = (bits - 0x3f3504f3) >> 23;
        bits -= shift << 23;
        T m;
        __builtin_memcpy(&m, &bits, sizeof(T));
        const T n = __builtin_convertvector(shift, T) - less(a, tiny, k(23.0f), T{}), r = m - k(1.0f), z = r * r;
        const T p = ((((((((k(7.0376836292e-2f) * r - k(1.1514610310e-1f)) * r + k(1.1676998740e-1f)) * r -
                          k(1.2420140846e-1f)) * r + k(1.4249322787e-1f)) * r - k(1.6668057665e-1f)) * r +
                       k(2.0000714765e-1f)) * r - k(2.4999993993e-1f)) * r + k(3.3333331174e-1f));
        const T y = (r + (r * z * p + n * k(-2.12194440e-4f) - k(0.5f) * z)) + n * k(0.693359375f);
        // Zero, infinity, negative numbers and NaN.
        const T top = k(3.40282347e38f), edge = less(a, k(1.0f), k(-1.0f) / T{}, k(1.0f) / T{});
        const T valid = less(T{}, a, less(top, a, edge, y), edge);
        return a >= T{} ? valid : T{} / T{};
    }
#endif

#if WIDE_REAL
    static CUDA_CALLABLE T sin(T a) { T y{}; EACH_LANE(LANE(y) = ::sin(LANE(a))); return y; }
    static CUDA_CALLABLE T cos(T a) { T y{}; EACH_LANE(LANE(y) = ::cos(LANE(a))); return y; }
#else
    // a = n pi/2 + r with |r| <= pi/4 (Cody and Waite); evaluate the Cephes minimax polynomials at r. The compiler shares
    // this work between the sine and the cosine of the same angle.
    static CUDA_CALLABLE T turns(T a) { return round(a * k(0.636619772367581343f)); }
    static CUDA_CALLABLE T rest(T a) {
        const T n = turns(a);
        return ((a - n * k(1.5703125f)) - n * k(4.837512969970703125e-4f)) - n * k(7.549789948768648e-8f);
    }
    static CUDA_CALLABLE T quadrant(T a) { const T n = turns(a); return n - k(4.0f) * floor(n * k(0.25f)); }
    static CUDA_CALLABLE T sine(T r) {
        const T z = r * r;
        return r + r * z * ((k(-1.9515295891e-4f) * z + k(8.3321608736e-3f)) * z - k(1.6666654611e-1f));
    }
    static CUDA_CALLABLE T cosine(T r) {
        const T z = r * r, tail = (k(2.443315711809948e-5f) * z - k(1.388731625493765e-3f)) * z + k(4.166664568298827e-2f);
        return k(1.0f) - k(0.5f) * z + z * z * tail;
    }
    static CUDA_CALLABLE T odd(T m) { return m - k(2.0f) * floor(m * k(0.5f)); }
    static CUDA_CALLABLE T sin(T a) {
        const T m = quadrant(a), r = rest(a), y = less(k(0.5f), odd(m), cosine(r), sine(r));
        return less(k(1.5f), m, -y, y);
    }
    static CUDA_CALLABLE T cos(T a) {
        const T m = quadrant(a), r = rest(a), y = less(k(0.5f), odd(m), sine(r), cosine(r));
        return less(abs(m - k(1.5f)), k(1.0f), -y, y);
    }
#endif

    // Number `i` of the `width` numbers per world, of the worlds from `e` on; each world is a row. Lanes past the last of
    // the `n` worlds load that world.
    static CUDA_CALLABLE T load(const real* from, int i, int width, int e, int n) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
        return from[(long long)e * width + i];
#else
        T y;
        for (int l = 0; l < W; ++l) y[l] = from[(long long)(e + l < n ? e + l : n - 1) * width + i];
        return y;
#endif
    }
    static CUDA_CALLABLE void store(real* to, int i, int width, int e, int n, T y) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
        to[(long long)e * width + i] = y;
#else
        for (int l = 0; l < W && e + l < n; ++l) to[(long long)(e + l) * width + i] = y[l];
#endif
    }

    // Address of number `i` of the `width` saved in substep `s` of `steps`; worlds are contiguous, and so are lanes.
    static CUDA_CALLABLE real* saved_state(real* base, int i, int s, int width, int steps, int e, int n) {
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
        return base + ((long long)s * width + i) * n + e;
#else
        return base + ((long long)e * steps + (long long)s * W) * width + (long long)i * W;
#endif
    }
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
    static CUDA_CALLABLE T get(const real* p) { return *p; }
    static CUDA_CALLABLE void put(real* p, T y) { *p = y; }
#else
    static T get(const real* p) { T y; __builtin_memcpy(&y, p, sizeof(T)); return y; }
    static void put(real* p, T y) { __builtin_memcpy(p, &y, sizeof(T)); }
#endif
};
