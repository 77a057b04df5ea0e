#include "textflag.h"

// Where the lanes stand: keys of a, keys of b, results. Addresses are held
// divided by eight, so that adding a carry moves them by one key.
#define A0 SI
#define B0 DI
#define D0 R8
#define A1 R9
#define B1 R10
#define D1 R11
#define A2 R12
#define B2 R13
#define D2 R14
#define A3 R15
#define B3 DX
#define D3 BP

// A lane is three slices, of 24 bytes each.
#define LOAD(Q, A, B, D) \
	MOVQ (72*Q+0)(AX), A   \
	MOVQ (72*Q+24)(AX), B  \
	MOVQ (72*Q+48)(AX), D  \
	SHRQ $3, A             \
	SHRQ $3, B             \
	SHRQ $3, D

#define LOADALL \
	MOVQ l+0(FP), AX    \
	MOVQ n+8(FP), CX    \
	LOAD(0, A0, B0, D0) \
	LOAD(1, A1, B1, D1) \
	LOAD(2, A2, B2, D2) \
	LOAD(3, A3, B3, D3)

// STORE writes what lane Q used up to u.
#define STORE(Q, A, B, D) \
	MOVQ (72*Q+0)(AX), BX  \
	SHRQ $3, BX            \
	SUBQ BX, A             \
	MOVQ A, (24*Q+0)(CX)   \
	MOVQ (72*Q+24)(AX), BX \
	SHRQ $3, BX            \
	SUBQ BX, B             \
	MOVQ B, (24*Q+8)(CX)   \
	MOVQ (72*Q+48)(AX), BX \
	SHRQ $3, BX            \
	SUBQ BX, D             \
	MOVQ D, (24*Q+16)(CX)

#define STOREALL \
	MOVQ l+0(FP), AX     \
	MOVQ u+16(FP), CX    \
	STORE(0, A0, B0, D0) \
	STORE(1, A1, B1, D1) \
	STORE(2, A2, B2, D2) \
	STORE(3, A3, B3, D3)

// x is in AX and y in BX. COMPARE moves A on if x <= y; the carry is then that
// of x < y, which moves B on by SBBQ unless it is set.
#define COMPARE(A, B) \
	MOVQ (A*8), AX \
	MOVQ (B*8), BX \
	CMPQ BX, AX    \
	SBBQ $-1, A    \
	CMPQ AX, BX

#define UNION(A, B, D) \
	COMPARE(A, B)   \
	CMOVQCS AX, BX  \
	SBBQ $-1, B     \
	MOVQ BX, (D*8)  \
	INCQ D

// A result is stored in any case, and counts if D moves on.
#define INTERSECT(A, B, D) \
	COMPARE(A, B)  \
	SBBQ $-1, B    \
	MOVQ AX, (D*8) \
	XORQ AX, BX    \
	CMPQ BX, $1    \
	ADCQ $0, D

#define DIFF(A, B, D) \
	COMPARE(A, B)  \
	SBBQ $-1, B    \
	MOVQ AX, (D*8) \
	CMPQ AX, BX    \
	ADCQ $0, D

// func unionSteps(l *[lanes]lane, n int, u *[lanes]used)
TEXT ·unionSteps(SB), NOSPLIT, $8-24
	LOADALL

loop:
	UNION(A0, B0, D0)
	UNION(A1, B1, D1)
	UNION(A2, B2, D2)
	UNION(A3, B3, D3)
	DECQ CX
	JNZ  loop
	STOREALL
	RET

// func intersectSteps(l *[lanes]lane, n int, u *[lanes]used)
TEXT ·intersectSteps(SB), NOSPLIT, $8-24
	LOADALL

loop:
	INTERSECT(A0, B0, D0)
	INTERSECT(A1, B1, D1)
	INTERSECT(A2, B2, D2)
	INTERSECT(A3, B3, D3)
	DECQ CX
	JNZ  loop
	STOREALL
	RET

// func diffSteps(l *[lanes]lane, n int, u *[lanes]used)
TEXT ·diffSteps(SB), NOSPLIT, $8-24
	LOADALL

loop:
	DIFF(A0, B0, D0)
	DIFF(A1, B1, D1)
	DIFF(A2, B2, D2)
	DIFF(A3, B3, D3)
	DECQ CX
	JNZ  loop
	STOREALL
	RET
