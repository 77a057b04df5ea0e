#include "go_asm.h"
#include "textflag.h"

// 0 … 3 as 64-bit numbers.
DATA iota4<>+0(SB)/8, $0
DATA iota4<>+8(SB)/8, $1
DATA iota4<>+16(SB)/8, $2
DATA iota4<>+24(SB)/8, $3
GLOBL iota4<>(SB), RODATA|NOPTR, $32

// The first byte of each 64-bit lane, for all eight of it.
DATA spread<>+0(SB)/8, $0
DATA spread<>+8(SB)/8, $0x0808080808080808
DATA spread<>+16(SB)/8, $0
DATA spread<>+24(SB)/8, $0x0808080808080808
GLOBL spread<>(SB), RODATA|NOPTR, $32

// 0 … 7 as bytes.
DATA bytes8<>+0(SB)/8, $0x0706050403020100
GLOBL bytes8<>(SB), RODATA|NOPTR, $8

// 7.
DATA sevens<>+0(SB)/8, $7
GLOBL sevens<>(SB), RODATA|NOPTR, $8

// What both searches do, in the same registers: DI has the memory, R8 the key and then its
// bucket, R9 its block and then that one's resident, AX a place.

// RANGE: R11 and R12 are lo and hi of the range of R9, the key less the first of all; R10 has the blocks.
#define RANGE \
	MOVQ  memory_shift(DI), R10 ; \
	SHRXQ R10, R9, R9           ; \
	MOVQ  memory_starts(DI), R10; \
	MOVL  (R10)(R9*4), R11      ; \
	MOVL  4(R10)(R9*4), R12     ; \
	MOVQ  memory_blocks(DI), R10

// BLOCK: R9 is the number of the block: of lo, less one, and one more for each of the two blocks from
// there on that do not begin above the key.
#define BLOCK \
	LEAQ -1(R11), R9   ; \
	SHLQ $6, R11       ; \
	ADDQ R10, R11      ; \
	PREFETCHT0 -64(R11); \
	CMPQ R8, (R11)     ; \
	SBBQ $-1, R9       ; \
	CMPQ R8, 64(R11)   ; \
	SBBQ $-1, R9

// HALVE: a step of the binary search in a crowded range.
#define HALVE \
	LEAQ    (R11)(R12*1), AX; \
	SHRQ    $1, AX          ; \
	MOVQ    AX, BX          ; \
	SHLQ    $6, BX          ; \
	MOVQ    (R10)(BX*1), BX ; \
	CMPQ    BX, R8          ; \
	CMOVQHI AX, R12         ; \
	INCQ    AX              ; \
	CMPQ    R8, BX          ; \
	CMOVQCC AX, R11

// PART: R11 is the part, the last line of the high part with a rank below the bucket: its number
// is that of such ranks, but for the first.
#define PART \
	VPBROADCASTW R8, Z0          ; \
	VPCMPUW      $6, (R9), Z0, K1; \
	KMOVD        K1, R11         ; \
	SHRL         $13, R11        ; \
	POPCNTL      R11, R11

// CONSTANTS: Z15 has ones, Z14 zeros, Y13 to Y10 what the low parts are taken apart with.
#define CONSTANTS \
	VPTERNLOGQ   $0xff, Z15, Z15, Z15; \
	VPXORQ       Z14, Z14, Z14       ; \
	VMOVDQU64    iota4<>(SB), Y13    ; \
	VMOVDQU64    spread<>(SB), Y12   ; \
	VPBROADCASTQ bytes8<>(SB), Y11   ; \
	VPBROADCASTQ sevens<>(SB), Y10

// BUCKET: AX is the place in the line where the bucket begins, after the zero of number Z5; BX is how
// many keys it has and R10 where it ends. The line's words are summed up by shifting: zeros of each
// and of those before it say which word has the zero.
#define BUCKET(LINE) \
	VPXORQ        (LINE), Z15, Z1 ; \
	VPOPCNTQ      Z1, Z2          ; \
	VALIGNQ       $7, Z14, Z2, Z3 ; \
	VPADDQ        Z2, Z3, Z4      ; \
	VALIGNQ       $6, Z14, Z4, Z3 ; \
	VPADDQ        Z4, Z3, Z4      ; \
	VALIGNQ       $4, Z14, Z4, Z3 ; \
	VPADDQ        Z4, Z3, Z4      ; \
	VPCMPQ        $6, Z5, Z4, K1  ; \
	VPSUBQ        Z2, Z4, Z4      ; \
	VPSUBQ        Z4, Z5, Z5      ; \
	VPCOMPRESSQ.Z Z5, K1, Z5      ; \
	VMOVQ         X5, R11         ; \
	KMOVB         K1, AX          ; \
	TZCNTL        AX, AX          ; \
	MOVQ          (LINE)(AX*8), BX; \
	NOTQ          BX              ; \
	MOVL          $1, R12         ; \
	SHLXQ         R11, R12, R12   ; \
	PDEPQ         BX, R12, R12    ; \
	TZCNTQ        R12, R12        ; \
	SHLQ          $6, AX          ; \
	LEAQ          1(AX)(R12*1), AX; \
	MOVQ    AX, R10               ; \
	SHRQ    $3, R10               ; \
	MOVL    $56, R11              ; \
	CMPQ    R10, R11              ; \
	CMOVQHI R11, R10              ; \
	MOVQ    (LINE)(R10*1), BX     ; \
	NOTQ    BX                    ; \
	SHLQ    $3, R10               ; \
	MOVQ    AX, R11               ; \
	SUBQ    R10, R11              ; \
	SHRXQ   R11, BX, BX           ; \
	TZCNTQ  BX, BX                ; \
	LEAQ    (AX)(BX*1), R10

// LOWS: Y1 has, for the four low parts from bit R11 of the byte at AX on, of width W, eight bytes from
// where each begins.
#define LOWS(W) \
	VPBROADCASTQ W, Y0       ; \
	VPBROADCASTQ R11, Y1     ; \
	VPMULUDQ     Y13, Y0, Y0 ; \
	VPADDQ       Y1, Y0, Y0  ; \
	VPSRLQ       $3, Y0, Y1  ; \
	VPSHUFB      Y12, Y1, Y1 ; \
	VPADDB       Y11, Y1, Y1 ; \
	VPERMB       (AX), Y1, Y1; \
	VPANDQ       Y10, Y0, Y0 ; \
	VPSRLVQ      Y0, Y1, Y1

// COMPARE: AX has a bit, and the flags say whether there is one, for each of the first BX lanes of Y1 that
// is zero in its W low bits.
#define COMPARE(W) \
	MOVQ         $-1, R10  ; \
	BZHIQ        W, R10, W ; \
	VPBROADCASTQ W, Y0     ; \
	VPTESTNMQ    Y0, Y1, K1; \
	KMOVB        K1, AX    ; \
	BZHIL        BX, AX, AX; \
	TESTL        AX, AX

// func searchAVX512(m *memory, keys *uint64, n int, found *[together]uint8)
//
// The three steps of searchGo, without branches that depend on the data but for what is
// rare. The lines and places that it reads follow from what verified blocks hold.
TEXT ·searchAVX512(SB), NOSPLIT, $0-32
	MOVQ m+0(FP), DI
	MOVQ keys+8(FP), SI
	MOVQ found+24(FP), R14
	LEAQ memory_some(DI), R13 // the next lookup
	XORL CX, CX               // number of the key

begin:
	MOVQ  (SI)(CX*8), R8
	MOVB  $const_unclear, (R14)(CX*1)
	MOVQ  R8, R9
	SUBQ  memory_first(DI), R9
	CMPQ  R9, memory_span(DI)
	JCC   next
	RANGE

crowded:
	LEAQ 2(R11), AX
	CMPQ R12, AX
	JHI  halve
	BLOCK

	MOVQ         R9, lookup_block(R13)
	SHLQ         $6, R9
	ADDQ         R10, R9
	SUBQ         resident_first(R9), R8
	MOVQ         R8, lookup_d(R13)
	MOVBQZX      resident_w(R9), R10
	SHRXQ        R10, R8, R8 // bucket
	LEAQ         -1(R8), AX
	MOVWQZX      resident_inner(R9), R11
	CMPQ         AX, R11
	JCC          next
	PART
	MOVWQSX      resident_ranks(R9)(R11*2), R12
	SHLQ         $6, R11
	SUBQ         R12, AX
	MOVQ         AX, lookup_zero(R13)
	MOVQ         resident_line(R9), R12
	LEAQ         (R12)(R11*1), DX
	MOVQ         DX, lookup_line(R13)
	ADDQ         memory_data(DI), DX
	PREFETCHT0   (DX)
	SHLQ         $3, R11
	SUBQ         R8, R11
	MOVQ         R11, lookup_before(R13)
	MOVQ         CX, lookup_i(R13)
	ADDQ         $lookup__size, R13

next:
	INCQ CX
	CMPQ CX, n+16(FP)
	JB   begin
	LEAQ memory_some(DI), SI
	CMPQ SI, R13
	JEQ  done

	CONSTANTS

zeros:
	MOVQ          lookup_line(SI), DX
	ADDQ          memory_data(DI), DX
	VPBROADCASTQ lookup_zero(SI), Z5
	BUCKET(DX)
	MOVL    $512, R11
	CMPQ    R10, R11
	CMOVQCC R11, BX
	MOVQ    BX, lookup_size(SI)

	MOVQ         lookup_block(SI), R8
	SHLQ         $6, R8
	ADDQ         memory_blocks(DI), R8
	ADDQ         lookup_before(SI), AX
	MOVBQZX      resident_w(R8), R9
	IMULQ        R9, AX
	MOVLQSX      resident_low(R8), R10
	ADDQ         R10, AX
	MOVQ         AX, R11
	SARQ         $3, AX
	ADDQ         resident_line(R8), AX
	ADDQ         memory_data(DI), AX
	ANDL         $7, R11
	PREFETCHT0   (AX)
	PREFETCHT0   15(AX)
	MOVQ         AX, lookup_low(SI)
	MOVQ         R11, lookup_bit(SI)
	MOVQ         R9, lookup_w(SI)
	ADDQ         $lookup__size, SI
	CMPQ         SI, R13
	JB           zeros

	LEAQ         memory_some(DI), SI

lows:
	MOVQ         lookup_low(SI), AX
	MOVQ         lookup_bit(SI), R11
	MOVQ         lookup_w(SI), R9
	MOVQ         lookup_size(SI), BX
	MOVQ         lookup_i(SI), CX
	CMPQ         BX, $const_most
	JHI          after
	LOWS(R9)
	VPXORQ.BCST  lookup_d(SI), Y1, Y1
	COMPARE(R9)
	SETNE        (R14)(CX*1)

after:
	ADDQ $lookup__size, SI
	CMPQ SI, R13
	JB   lows

done:
	VZEROUPPER
	RET

halve:
	HALVE
	JMP     crowded

// func containsAVX512(m *memory, key uint64) uint8
//
// The same for one key, in registers: what is stored would fill the processor's queue of
// stores, and keep it from beginning the next lookup while it waits for this. It does not
// wait for the high part to ask for the low part, but asks for three lines around the
// place where that is by interpolation between the ranks.
TEXT ·containsAVX512(SB), NOSPLIT, $0-17
	MOVQ m+0(FP), DI
	MOVQ  key+8(FP), R8
	MOVQ  R8, R9
	SUBQ  memory_first(DI), R9
	CMPQ  R9, memory_span(DI)
	JCC   unclear
	RANGE

crowded:
	LEAQ 2(R11), AX
	CMPQ R12, AX
	JHI  halve
	BLOCK

	SHLQ         $6, R9
	ADDQ         R10, R9
	SUBQ         resident_first(R9), R8
	VPBROADCASTQ R8, Y9
	MOVBQZX      resident_w(R9), R10
	SHRXQ        R10, R8, R8 // bucket
	LEAQ         -1(R8), AX
	MOVWQZX      resident_inner(R9), R11
	CMPQ         AX, R11
	JCC          unclear
	PART
	MOVWQSX      resident_ranks(R9)(R11*2), R12
	MOVWQZX      (resident_ranks+2)(R9)(R11*2), BX
	SHLQ         $6, R11
	SUBQ         R12, AX
	SUBL         R12, BX             // zeros of the line
	VPBROADCASTQ AX, Z5
	MOVQ         resident_line(R9), R12
	LEAQ         (R12)(R11*1), DX
	ADDQ         memory_data(DI), DX
	MOVQ         DX, R13
	PREFETCHT0   (DX)
	SHLQ         $3, R11
	SUBQ         R8, R11
	MOVQ         R11, CX
	SHLL         $9, AX
	XORL         DX, DX
	DIVL         BX                  // about where the bucket begins
	ADDQ         R11, AX
	IMULQ        R10, AX
	MOVLQSX      resident_low(R9), R11
	ADDQ         R11, AX
	SARQ         $3, AX
	ADDQ         R12, AX
	ADDQ         memory_data(DI), AX
	PREFETCHT0   -58(AX)
	PREFETCHT0   6(AX)
	PREFETCHT0   70(AX)

	CONSTANTS

	BUCKET(R13)
	CMPQ    BX, $const_most
	JHI     unclear
	CMPQ    R10, $512
	JCC     unclear

	ADDQ         CX, AX
	MOVBQZX      resident_w(R9), R8
	IMULQ        R8, AX
	MOVLQSX      resident_low(R9), R10
	ADDQ         R10, AX
	MOVQ         AX, R11
	SARQ         $3, AX
	ADDQ         resident_line(R9), AX
	ADDQ         memory_data(DI), AX
	ANDL         $7, R11
	LOWS(R8)
	VPXORQ       Y9, Y1, Y1
	COMPARE(R8)
	SETNE        ret+16(FP)

	VZEROUPPER
	RET

unclear:
	MOVB $const_unclear, ret+16(FP)
	VZEROUPPER
	RET

halve:
	HALVE
	JMP     crowded

// func fetch(a *byte)
TEXT ·fetch(SB), NOSPLIT, $0-8
	MOVQ       a+0(FP), AX
	PREFETCHT0 (AX)
	RET
