(** Two discrete Gaussians with integer centres: their Renyi divergence of every real order.

    It is at most that of the continuous Gaussians, alpha |u - v|^2 / (2 sigma^2), in any number of
    dimensions. The one hard step, that the sum over the integers of exp(-(x - c)^2 / (2 sigma^2)) is
    largest at c = 0, is usually by Poisson's formula. Here it is from pairs (x, y) turned by 45
    degrees: with T(c) for the sum, T(c)^4 <= T(2 c) T(0)^3 for every c, so the supremum M has
    M^4 <= M T(0)^3. *)

From Coq Require Import Reals List Lra Lia ZArith Psatz.
From Weir Require Import Sums.
Import ListNotations.
Open Scope R_scope.

(** ** Theta *)

Definition bell (lambda c : R) (x : Z) : R := exp (- (lambda * (IZR x - c) ^ 2)).

Lemma bell_pos lambda c x : 0 < bell lambda c x.
Proof. apply exp_pos. Qed.

Lemma bell_nonneg lambda c : nonneg (bell lambda c).
Proof. intros x. apply Rlt_le, bell_pos. Qed.

Lemma exp_le a b : a <= b -> exp a <= exp b.
Proof. intros [H | ->]; [ left; now apply exp_increasing | right; reflexivity ]. Qed.

Fixpoint powers (q : R) (n : nat) : R := match n with O => 0 | S n => q ^ n + powers q n end.

Lemma powers_bound q n : 0 <= q < 1 -> powers q n <= / (1 - q).
Proof.
  intros Hq. assert (H : powers q n * (1 - q) = 1 - q ^ n).
  { induction n as [ | n IH ]; cbn; [ lra | ]. rewrite Rmult_plus_distr_r, IH. ring. }
  assert (0 <= q ^ n) by (apply pow_le; lra).
  apply (Rmult_le_reg_r (1 - q)); [ lra | ]. rewrite H, Rinv_l by lra. lra.
Qed.

Lemma exp_mult_nat y n : exp (INR n * y) = exp y ^ n.
Proof.
  induction n as [ | n IH ]; [ cbn; rewrite Rmult_0_l; apply exp_0 | ].
  rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus, IH. cbn. ring.
Qed.

(** Integers at distance of about j from c, on both sides. *)
Definition near (n : Z) (size : nat) : list Z :=
  map (fun j => n + 1 + Z.of_nat j)%Z (seq 0 size) ++ map (fun j => n - Z.of_nat j)%Z (seq 0 size).

Lemma near_incl n l : exists size, incl l (near n size).
Proof.
  induction l as [ | x l [size IH] ]; [ exists O; intros y [] | ].
  exists (max size (S (Z.to_nat (Z.abs (x - n))))).
  assert (Hmore : forall m k, (m <= k)%nat -> incl (near n m) (near n k)).
  { intros m k Hmk y Hy. unfold near in *. apply in_app_or in Hy. apply in_or_app.
    destruct Hy as [Hy | Hy]; [ left | right ]; apply in_map_iff in Hy; destruct Hy as (j & <- & Hj);
      apply in_map_iff; exists j; split; try reflexivity; apply in_seq in Hj; apply in_seq; lia. }
  intros y [<- | Hy].
  - unfold near. apply in_or_app. destruct (Z_le_gt_dec x n).
    + right. apply in_map_iff. exists (Z.to_nat (n - x)). split; [ lia | ]. apply in_seq. lia.
    + left. apply in_map_iff. exists (Z.to_nat (x - n - 1)). split; [ lia | ]. apply in_seq. lia.
  - apply (Hmore size); [ lia | ]. now apply IH.
Qed.

Lemma bell_sums_bounded lambda c l : 0 < lambda -> NoDup l ->
  finite_sum (bell lambda c) l <= 2 * / (1 - exp (- lambda)).
Proof.
  intros Hlambda Hl.
  destruct (archimed c) as [Hup Hlow]. set (n := (up c - 1)%Z).
  assert (Hn : IZR n <= c <= IZR n + 1). { unfold n. rewrite minus_IZR. lra. }
  destruct (near_incl n l) as [size Hincl].
  eapply Rle_trans; [ apply (finite_sum_incl _ l (near n size)); auto using bell_nonneg | ].
  assert (Hq : 0 <= exp (- lambda) < 1).
  { split; [ apply Rlt_le, exp_pos | ]. rewrite <- exp_0. apply exp_increasing. lra. }
  assert (Hterm : forall y j, INR j <= Rabs y -> exp (- (lambda * y ^ 2)) <= exp (- lambda) ^ j).
  { intros y j Hj. rewrite <- exp_mult_nat. apply exp_le.
    assert (INR j <= y ^ 2).
    { rewrite <- (Rabs_pos_eq (y ^ 2)) by apply pow2_ge_0. rewrite <- RPow_abs.
      destruct j as [ | j ]; [ cbn; apply pow2_ge_0 | ].
      assert (1 <= INR (S j)) by (rewrite S_INR; assert (0 <= INR j) by apply pos_INR; lra). nra. }
    nra. }
  assert (Hside : forall f : nat -> Z, (forall j, INR j <= Rabs (IZR (f j) - c)) ->
    finite_sum (bell lambda c) (map f (seq 0 size)) <= powers (exp (- lambda)) size).
  { intros f Hf. rewrite finite_sum_map. clear Hincl. induction size as [ | k IH ]; [ cbn; lra | ].
    rewrite seq_S, finite_sum_app. cbn. specialize (Hterm _ _ (Hf k)). unfold bell at 2. lra. }
  unfold near. rewrite finite_sum_app.
  assert (H1 := Hside (fun j => n + 1 + Z.of_nat j)%Z).
  assert (H2 := Hside (fun j => n - Z.of_nat j)%Z).
  assert (Hb := powers_bound (exp (- lambda)) size Hq).
  enough (finite_sum (bell lambda c) (map (fun j => n + 1 + Z.of_nat j)%Z (seq 0 size)) <= powers (exp (- lambda)) size
       /\ finite_sum (bell lambda c) (map (fun j => n - Z.of_nat j)%Z (seq 0 size)) <= powers (exp (- lambda)) size) by lra.
  split; [ apply H1 | apply H2 ]; intros j; rewrite ?plus_IZR, ?minus_IZR, <- INR_IZR_INZ;
    assert (0 <= INR j) by apply pos_INR.
  - rewrite Rabs_pos_eq; lra.
  - rewrite Rabs_left1; lra.
Qed.

Lemma theta_exists lambda : 0 < lambda ->
  exists bound, forall c, exists s, sums_to (bell lambda c) s /\ s <= bound.
Proof.
  intros H. exists (2 * / (1 - exp (- lambda))). intros c. apply sums_exist.
  intros l Hl. now apply bell_sums_bounded.
Qed.

Lemma theta_pos lambda c s : sums_to (bell lambda c) s -> 0 < s.
Proof.
  intros H. apply Rlt_le_trans with (bell lambda c 0); [ apply bell_pos | ].
  assert (Hone := sums_upper _ _ [0%Z] H). cbn in Hone. enough (NoDup [0%Z]) by (specialize (Hone H0); lra).
  constructor; [ intros [] | constructor ].
Qed.

(** Pairs of integers, by the parity of their sum. *)
Definition turn (e : (Z * Z) + (Z * Z)) : Z * Z :=
  match e with inl (k, l) => (k + l, k - l)%Z | inr (k, l) => (k + l + 1, k - l)%Z end.
Definition turn_back (p : Z * Z) : (Z * Z) + (Z * Z) :=
  let (x, y) := p in
  if Z.even (x + y) then inl ((x + y) / 2, (x - y) / 2)%Z else inr ((x + y) / 2, (x - y) / 2)%Z.

Lemma turn_turn_back p : turn (turn_back p) = p.
Proof.
  destruct p as (x, y). unfold turn_back, turn. destruct (Z.even (x + y)) eqn:H.
  - apply Z.even_spec in H. destruct H as (k & H). f_equal.
    all: replace (x - y)%Z with (2 * (k - y))%Z by lia; rewrite H, !(Z.mul_comm 2), !Z.div_mul by lia; lia.
  - assert (Ho : Z.odd (x + y) = true) by (rewrite <- Z.negb_even, H; reflexivity).
    apply Z.odd_spec in Ho. destruct Ho as (k & Hk).
    assert (H1 : ((x + y) / 2 = k)%Z) by (symmetry; apply (Z.div_unique _ _ _ 1); lia).
    assert (H2 : ((x - y) / 2 = k - y)%Z) by (symmetry; apply (Z.div_unique _ _ _ 1); lia).
    rewrite H1, H2. f_equal; lia.
Qed.

Lemma turn_back_turn e : turn_back (turn e) = e.
Proof.
  destruct e as [(k, l) | (k, l)]; unfold turn, turn_back.
  - replace (k + l + (k - l))%Z with (2 * k)%Z by lia. replace (k + l - (k - l))%Z with (2 * l)%Z by lia.
    rewrite Z.even_mul. cbn [orb Z.even]. rewrite !(Z.mul_comm 2), !Z.div_mul by lia. reflexivity.
  - replace (k + l + 1 + (k - l))%Z with (1 + 2 * k)%Z by lia.
    replace (k + l + 1 - (k - l))%Z with (1 + 2 * l)%Z by lia.
    rewrite Z.even_add_mul_2. cbn [Z.even].
    assert (H1 : forall m, ((1 + 2 * m) / 2 = m)%Z) by (intros m; symmetry; apply (Z.div_unique _ _ _ 1); lia).
    now rewrite !H1.
Qed.

(** T(c) T(d) = E(c + d) E(c - d) + O(c + d) O(c - d), where E and O are the same sums over the even
    and over the odd integers with half the exponent: bells again, of twice the exponent. *)
Lemma theta_product lambda c d tc td e1 e2 o1 o2 :
  sums_to (bell lambda c) tc -> sums_to (bell lambda d) td ->
  sums_to (bell (2 * lambda) ((c + d) / 2)) e1 -> sums_to (bell (2 * lambda) ((c - d) / 2)) e2 ->
  sums_to (bell (2 * lambda) ((c + d - 1) / 2)) o1 -> sums_to (bell (2 * lambda) ((c - d - 1) / 2)) o2 ->
  tc * td = e1 * e2 + o1 * o2.
Proof.
  intros Htc Htd He1 He2 Ho1 Ho2.
  assert (Hall := sums_pairs Z.eq_dec Z.eq_dec _ _ _ _ (bell_nonneg _ _) (bell_nonneg _ _) Htc Htd).
  apply (sums_reindex _ turn turn_back) in Hall; [ | apply turn_back_turn | apply turn_turn_back ].
  assert (Heven := sums_pairs Z.eq_dec Z.eq_dec _ _ _ _ (bell_nonneg _ _) (bell_nonneg _ _) He1 He2).
  assert (Hodd := sums_pairs Z.eq_dec Z.eq_dec _ _ _ _ (bell_nonneg _ _) (bell_nonneg _ _) Ho1 Ho2).
  assert (Hboth := sums_both _ _ _ _ Heven Hodd).
  eapply sums_unique; [ exact Hall | ]. eapply sums_ext; [ | exact Hboth ].
  intros [(k, l) | (k, l)]; unfold turn, bell; cbn [fst snd]; rewrite <- !exp_plus; f_equal;
    rewrite ?plus_IZR, ?minus_IZR; field.
Qed.

Lemma fourth_power a b : 0 <= a -> 0 <= b -> a ^ 4 <= b ^ 4 -> a <= b.
Proof. intros Ha Hb H. destruct (Rle_or_lt a b); [ assumption | ]. assert (b ^ 2 < a ^ 2) by nra. nra. Qed.

Lemma theta_fourth lambda c tc t2c t0 : 0 < lambda ->
  sums_to (bell lambda c) tc -> sums_to (bell lambda (2 * c)) t2c -> sums_to (bell lambda 0) t0 ->
  tc ^ 4 <= t2c * t0 ^ 3.
Proof.
  intros Hlambda Htc Ht2c Ht0.
  destruct (theta_exists (2 * lambda) ltac:(lra)) as [bound Hex].
  destruct (Hex c) as (ec & Hec & _). destruct (Hex 0) as (e0 & He0 & _).
  destruct (Hex ((2 * c - 1) / 2)) as (oc & Hoc & _). destruct (Hex ((0 - 1) / 2)) as (o0 & Ho0 & _).
  assert (H1 : tc * tc = ec * e0 + oc * o0).
  { apply (theta_product lambda c c); auto.
    - replace ((c + c) / 2) with c by field. exact Hec.
    - replace ((c - c) / 2) with 0 by field. exact He0.
    - replace (c + c - 1) with (2 * c - 1) by ring. exact Hoc.
    - replace (c - c - 1) with (0 - 1) by ring. exact Ho0. }
  assert (H2 : t2c * t0 = ec * ec + oc * oc).
  { apply (theta_product lambda (2 * c) 0); auto.
    - replace ((2 * c + 0) / 2) with c by field. exact Hec.
    - replace ((2 * c - 0) / 2) with c by field. exact Hec.
    - replace (2 * c + 0 - 1) with (2 * c - 1) by ring. exact Hoc.
    - replace (2 * c - 0 - 1) with (2 * c - 1) by ring. exact Hoc. }
  assert (H3 : t0 * t0 = e0 * e0 + o0 * o0).
  { apply (theta_product lambda 0 0); auto.
    - replace ((0 + 0) / 2) with 0 by field. exact He0.
    - replace ((0 - 0) / 2) with 0 by field. exact He0.
    - replace (0 + 0 - 1) with (0 - 1) by ring. exact Ho0.
    - replace (0 - 0 - 1) with (0 - 1) by ring. exact Ho0. }
  replace (tc ^ 4) with ((tc * tc) ^ 2) by ring. replace (t2c * t0 ^ 3) with ((t2c * t0) * (t0 * t0)) by ring.
  rewrite H1, H2, H3.
  assert (0 <= (ec * o0 - oc * e0) ^ 2) by apply pow2_ge_0. nra.
Qed.

Theorem theta_largest_at_zero lambda c tc t0 : 0 < lambda ->
  sums_to (bell lambda c) tc -> sums_to (bell lambda 0) t0 -> tc <= t0.
Proof.
  intros Hlambda Htc Ht0.
  destruct (theta_exists lambda Hlambda) as [bound Hex].
  destruct (completeness (fun t => exists d, sums_to (bell lambda d) t)) as [most [Hup Hleast]].
  { exists bound. intros t (d & Hd). destruct (Hex d) as (s & Hs & Hsb).
    now rewrite (sums_unique _ _ _ Hd Hs). }
  { exists t0, 0. exact Ht0. }
  assert (Hpos := theta_pos _ _ _ Ht0).
  assert (Hmost : t0 <= most) by (apply Hup; now exists 0).
  set (root := sqrt (sqrt (most * t0 ^ 3))).
  assert (Hk : 0 <= most * t0 ^ 3) by (apply Rmult_le_pos; [ lra | apply pow_le; lra ]).
  assert (Hroot : root ^ 4 = most * t0 ^ 3).
  { unfold root. replace (sqrt (sqrt (most * t0 ^ 3)) ^ 4)
      with ((sqrt (sqrt (most * t0 ^ 3)) * sqrt (sqrt (most * t0 ^ 3))) ^ 2) by ring.
    rewrite sqrt_sqrt by apply sqrt_pos.
    replace (sqrt (most * t0 ^ 3) ^ 2) with (sqrt (most * t0 ^ 3) * sqrt (most * t0 ^ 3)) by ring.
    now apply sqrt_sqrt. }
  assert (Hroot0 : 0 <= root) by apply sqrt_pos.
  assert (Hle : most <= root).
  { apply Hleast. intros t (d & Hd). apply fourth_power; [ now apply (sums_nonneg _ _ Hd) | exact Hroot0 | ].
    rewrite Hroot. destruct (Hex (2 * d)) as (s & Hs & _).
    eapply Rle_trans; [ apply (theta_fourth lambda d t s t0); auto | ].
    apply Rmult_le_compat_r; [ apply pow_le; lra | ]. apply Hup. now exists (2 * d). }
  assert (Hfour : most ^ 4 <= most * t0 ^ 3).
  { rewrite <- Hroot. apply pow_incr. lra. }
  assert (most ^ 3 <= t0 ^ 3).
  { apply (Rmult_le_reg_l most); [ lra | ]. replace (most * most ^ 3) with (most ^ 4) by ring. exact Hfour. }
  assert (most <= t0).
  { destruct (Rle_or_lt most t0); [ assumption | ]. assert (t0 ^ 2 < most ^ 2) by nra. nra. }
  enough (tc <= most) by lra. apply Hup. now exists c.
Qed.

(** ** The discrete Gaussian on the integers *)

Lemma theta_of_integers lambda u t0 : sums_to (bell lambda 0) t0 -> sums_to (bell lambda (IZR u)) t0.
Proof.
  intros H. apply (sums_reindex _ (fun x => x - u)%Z (fun x => x + u)%Z) in H; try (intros; lia).
  eapply sums_ext; [ | exact H ]. intros x. unfold bell. rewrite minus_IZR. f_equal. ring.
Qed.

Definition mass (lambda t0 : R) (u x : Z) : R := bell lambda (IZR u) x / t0.

Definition moment (alpha p q : R) : R := Rpower p alpha * Rpower q (1 - alpha).

Lemma moment_mass lambda t0 alpha u v x : 0 < t0 ->
  moment alpha (mass lambda t0 u x) (mass lambda t0 v x)
    = exp (lambda * (alpha * (alpha - 1) * (IZR u - IZR v) ^ 2)) / t0
      * bell lambda (alpha * IZR u + (1 - alpha) * IZR v) x.
Proof.
  intros Ht0.
  assert (Hmass : forall w, mass lambda t0 w x = exp (- (lambda * (IZR x - IZR w) ^ 2) - ln t0)).
  { intros w. unfold mass, bell, Rminus, Rdiv. rewrite exp_plus, (exp_Ropp (ln t0)), exp_ln by exact Ht0.
    reflexivity. }
  unfold moment, Rpower. rewrite !Hmass, !ln_exp, <- exp_plus. unfold bell.
  replace (exp (lambda * (alpha * (alpha - 1) * (IZR u - IZR v) ^ 2)) / t0)
    with (exp (lambda * (alpha * (alpha - 1) * (IZR u - IZR v) ^ 2) - ln t0)).
  2: { unfold Rminus, Rdiv. now rewrite exp_plus, (exp_Ropp (ln t0)), exp_ln. }
  rewrite <- exp_plus. f_equal. ring.
Qed.

Lemma renyi_of_one lambda t0 alpha u v : 0 < lambda -> sums_to (bell lambda 0) t0 ->
  exists s, sums_to (fun x => moment alpha (mass lambda t0 u x) (mass lambda t0 v x)) s
    /\ s <= exp (lambda * (alpha * (alpha - 1) * (IZR u - IZR v) ^ 2)).
Proof.
  intros Hlambda Ht0. assert (Hpos := theta_pos _ _ _ Ht0).
  destruct (theta_exists lambda Hlambda) as [bound Hex].
  destruct (Hex (alpha * IZR u + (1 - alpha) * IZR v)) as (t & Ht & _).
  set (factor := exp (lambda * (alpha * (alpha - 1) * (IZR u - IZR v) ^ 2))).
  assert (Hfactor : 0 < factor) by apply exp_pos.
  exists (factor / t0 * t). split.
  - eapply sums_ext; [ | apply sums_scale; [ | exact Ht ] ].
    + intros x. cbv beta. symmetry. now apply moment_mass.
    + now apply Rdiv_lt_0_compat.
  - assert (Hle := theta_largest_at_zero lambda _ t t0 Hlambda Ht Ht0).
    apply Rle_trans with (factor / t0 * t0); [ | right; field; lra ].
    apply Rmult_le_compat_l; [ | exact Hle ]. apply Rlt_le. now apply Rdiv_lt_0_compat.
Qed.

(** ** In any number of dimensions *)

Fixpoint point (d : nat) : Type := match d with O => unit | S d => Z * point d end.

Fixpoint point_eq (d : nat) : forall x y : point d, {x = y} + {x <> y}.
Proof.
  destruct d as [ | d ]; cbn.
  - intros [] []. now left.
  - intros (x, x') (y, y'). destruct (Z.eq_dec x y) as [-> | H]; [ | right; congruence ].
    destruct (point_eq d x' y') as [-> | H]; [ now left | right; congruence ].
Defined.

Fixpoint masses (lambda t0 : R) (d : nat) : point d -> point d -> R :=
  match d with
  | O => fun _ _ => 1
  | S d => fun u x => mass lambda t0 (fst u) (fst x) * masses lambda t0 d (snd u) (snd x)
  end.

Fixpoint squared_distance (d : nat) : point d -> point d -> R :=
  match d with
  | O => fun _ _ => 0
  | S d => fun u v => (IZR (fst u) - IZR (fst v)) ^ 2 + squared_distance d (snd u) (snd v)
  end.

Lemma mass_pos lambda t0 u x : 0 < t0 -> 0 < mass lambda t0 u x.
Proof. intros H. apply Rdiv_lt_0_compat; [ apply bell_pos | exact H ]. Qed.

Lemma masses_pos lambda t0 d u x : 0 < t0 -> 0 < masses lambda t0 d u x.
Proof.
  intros H. revert u x. induction d as [ | d IH ]; intros u x; cbn; [ lra | ].
  apply Rmult_lt_0_compat; [ now apply mass_pos | apply IH ].
Qed.

Lemma moment_pos alpha p q : 0 < moment alpha p q.
Proof. apply Rmult_lt_0_compat; apply exp_pos. Qed.

Lemma moment_product alpha p p' q q' : 0 < p -> 0 < p' -> 0 < q -> 0 < q' ->
  moment alpha (p * p') (q * q') = moment alpha p q * moment alpha p' q'.
Proof. intros. unfold moment. rewrite <- !Rpower_mult_distr by assumption. ring. Qed.

Lemma sums_of_unit : sums_to (fun _ : unit => 1) 1.
Proof.
  apply sums_intro.
  - intros [ | [] [ | [] l ] ] Hl; cbn; try lra. inversion Hl as [ | ? ? Hnot _ ]. contradiction Hnot. now left.
  - intros b Hb. specialize (Hb [tt]). cbn in Hb. enough (NoDup [tt]) by (specialize (Hb H); lra).
    constructor; [ intros [] | constructor ].
Qed.

(** The masses are those of a distribution. *)
Theorem masses_sum_to_one lambda t0 d u : 0 < lambda -> sums_to (bell lambda 0) t0 ->
  sums_to (masses lambda t0 d u) 1.
Proof.
  intros Hlambda Ht0. assert (Hpos := theta_pos _ _ _ Ht0).
  induction d as [ | d IH ]; [ apply sums_of_unit | ].
  cbn. rewrite <- (Rmult_1_l 1). apply sums_pairs; [ apply Z.eq_dec | apply point_eq | | | | apply IH ].
  - intros x. apply Rlt_le. now apply mass_pos.
  - intros x. apply Rlt_le. now apply masses_pos.
  - assert (H := theta_of_integers lambda (fst u) t0 Ht0).
    apply (sums_scale _ (/ t0)) in H; [ | now apply Rinv_0_lt_compat ].
    rewrite Rinv_l in H by lra. eapply sums_ext; [ | exact H ].
    intros x. unfold mass, Rdiv. ring.
Qed.

(** Renyi's divergence of order alpha is at most alpha |u - v|^2 / (2 sigma^2): this is exp((alpha - 1)
    times it). Nothing is asked of alpha. *)
Theorem gaussian_renyi sigma t0 alpha d (u v : point d) : 0 < sigma ->
  sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  exists s,
    sums_to (fun x => moment alpha (masses (/ (2 * sigma ^ 2)) t0 d u x) (masses (/ (2 * sigma ^ 2)) t0 d v x)) s
    /\ s <= exp ((alpha - 1) * (alpha * squared_distance d u v / (2 * sigma ^ 2))).
Proof.
  intros Hsigma Ht0. assert (Hpos := theta_pos _ _ _ Ht0).
  assert (Hs2 : 0 < 2 * sigma ^ 2) by (assert (0 < sigma ^ 2) by (apply pow_lt; lra); lra).
  set (lambda := / (2 * sigma ^ 2)) in *.
  assert (Hlambda : 0 < lambda) by now apply Rinv_0_lt_compat.
  induction d as [ | d IH ].
  - exists 1. split.
    + eapply sums_ext; [ | apply sums_of_unit ]. intros x. cbn. unfold moment, Rpower.
      rewrite ln_1, !Rmult_0_r, exp_0. lra.
    + cbn. right. unfold Rdiv. rewrite Rmult_0_r, Rmult_0_l, Rmult_0_r. now rewrite exp_0.
  - destruct (IH (snd u) (snd v)) as (s & Hs & Hle).
    destruct (renyi_of_one lambda t0 alpha (fst u) (fst v) Hlambda Ht0) as (s1 & Hs1 & Hle1).
    exists (s1 * s). split.
    + eapply sums_ext; [ | apply (sums_pairs Z.eq_dec (point_eq d) _ _ _ _ (fun x => Rlt_le _ _ (moment_pos alpha _ _)) (fun x => Rlt_le _ _ (moment_pos alpha _ _)) Hs1 Hs) ].
      intros x. cbn [masses]. symmetry. apply moment_product; auto using mass_pos, masses_pos.
    + cbn [squared_distance].
      replace ((alpha - 1) * (alpha * ((IZR (fst u) - IZR (fst v)) ^ 2 + squared_distance d (snd u) (snd v)) / (2 * sigma ^ 2)))
        with (lambda * (alpha * (alpha - 1) * (IZR (fst u) - IZR (fst v)) ^ 2)
              + (alpha - 1) * (alpha * squared_distance d (snd u) (snd v) / (2 * sigma ^ 2)))
        by (unfold lambda; field; lra).
      rewrite exp_plus. apply Rmult_le_compat; try assumption.
      * apply (sums_nonneg _ _ Hs1).
      * apply (sums_nonneg _ _ Hs).
Qed.
